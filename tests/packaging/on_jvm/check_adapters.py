"""The phone's pyjnius code, unchanged, on a desktop's Java against stubs of Android. Run by test_on_jvm.py."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jnius import JavaException, autoclass, cast

from mobile_app.android import context, power, recording_service, screen
from mobile_app.android.rest import PhoneSleep
from mobile_app.home.files import RESUME_FILE
from mobile_app.node.rest import OnBattery
from mobile_app.platforms import AndroidPlatform
from mobile_app.sensors.android import network as android_network
from mobile_app.sensors.android import position
from mobile_app.sensors.android import sources as android
from mobile_app.sensors.android.microphone import open_microphone
from mobile_app.sensors.android.sources import AndroidSensor, StampBase, absent_sensors, open_android
from mobile_app.sensors.network import Network
from mobile_app.sensors.source import SensorMissing, Source
from mobile_app.sensors.still import PausesWhenStill
from mobile_app.service.foreground import POSITIONS_FILE
from shared.stream.sources import SENSORS
from tests.patience import wait_until

Context = autoclass("android.content.Context")
Version = autoclass("android.os.Build$VERSION")
PythonService = autoclass("org.kivy.android.PythonService")
ACTIVITY = "android.permission.ACTIVITY_RECOGNITION"
LOCATION = "android.permission.ACCESS_FINE_LOCATION"
LIGHT, ACCELEROMETER, STEPS, SIGNIFICANT_MOTION = 5, 1, 19, 17


@pytest.fixture(autouse=True)
def phone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ACTIVITY, LOCATION, "android.permission.RECORD_AUDIO"):
        Context.revoke(name)
    PythonService.mService = autoclass("org.resurge.phone.ServiceNode")()
    manager = sensors()
    manager.refuses = manager.fails = False
    manager.absent = -1
    Version.SDK_INT = 36
    monkeypatch.setattr(android, "RETRY_S", 0.0)
    monkeypatch.setattr(position, "RETRY_S", 0.0)
    location().all()


def sensors():
    return context.system_service("sensor", "android.hardware.SensorManager")


def location():
    return context.system_service("location", "android.location.LocationManager")


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def open_one(sensor: str, every_us: int = 10_000_000, **changes) -> Source:
    from_us = boot_ns() // 1000 - 60_000_000
    return open_android(
        sensor, **{"every_us": every_us, "from_us": from_us, "event_time": lambda boot_us: boot_us} | changes
    )


def wait_for(condition: Callable[[], object]) -> None:
    wait_until(condition, "the condition")


# --- motion --------------------------------------------------------------------------------------------------


def test_events_keep_the_time_at_which_they_happened():
    source = open_one("accelerometer", every_us=100_000)
    assert (sensors().period(ACCELEROMETER), sensors().latency) == (100_000, 5_000_000)
    first = boot_ns() - 3_000_000_000
    for step in range(5):
        sensors().fire(ACCELEROMETER, first + step * 100_000_000, 0.5, -0.25, 9.5)
    samples = source.read(boot_ns() // 1000)
    assert samples.time_us.tolist() == [first // 1000 + step * 100_000 for step in range(5)]
    assert samples.columns["z"].tolist() == [9.5] * 5
    assert source.at(np.asarray([7])).columns["x"].tolist() == [0.5]
    source.close()
    assert not sensors().listening(ACCELEROMETER)


@pytest.mark.parametrize(("every_us", "count"), [(2_500, 4000), (20_000, 2000), (200_000, 200)])
def test_at_every_rate_a_ring_in_java_takes_the_events_and_none_is_lost(every_us, count):
    """50 Hz, the default, too: a call into Python for each costs most of a millisecond."""
    source = open_one("gyroscope", every_us=every_us)
    assert sensors().listenerOf(4) == "org.resurge.phone.SensorRing"
    first = boot_ns() - count * every_us * 1000
    sensors().pump(4, first, every_us * 1000, count)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["x"].tolist() == list(range(count))
    assert np.diff(samples.time_us).tolist() == [every_us] * (count - 1)
    source.sample_every(100_000)  # a hint slows it down
    assert sensors().listenerOf(4) == "org.resurge.phone.SensorRing"
    assert sensors().period(4) == 100_000
    source.close()


def test_what_a_full_ring_lost_is_told_with_the_readings():
    source = open_one("gyroscope", every_us=2_500)
    sensors().pump(4, boot_ns() - 10_000_000_000, 1_000_000, android.RING_EVENTS + 70)
    assert source.read(boot_ns() // 1000).overruns == 70
    assert source.read(boot_ns() // 1000).overruns == 0
    source.close()


def test_every_adapter_gives_the_columns_of_the_schema():
    listened = {name: entry[1] for name, entry in android.LISTENED.items()}
    listened |= {name: (column,) for name, (_, column) in android.ON_CHANGE.items()}
    assert listened == {name: SENSORS[name].names for name in listened}
    assert (*SENSORS["gps"].names, "provider") == position.COLUMNS


def test_a_ring_that_nobody_drains_keeps_the_newest_and_counts_the_rest():
    ring = autoclass("org.resurge.phone.SensorRing")(100, 3)
    manager = sensors()
    manager.registerListener(ring, manager.getDefaultSensor(2), 1000, 0)
    manager.pump(2, 1, 1, 250)
    events = np.frombuffer(bytes(ring.drain()), np.dtype([("stamp", "<i8"), ("values", "<f4", (3,))]))
    assert events["values"][:, 0].tolist() == list(range(150, 250))
    assert ring.overrun() == 150
    assert len(bytes(ring.drain())) == 0


def test_phones_that_stamp_with_another_clock_are_understood():
    base, now = StampBase(), 50_000_000_000_000
    assert base.boot_us(now - 3_000_000, now) == (now - 3_000_000) // 1000  # the promised clock: as it is
    other = StampBase()
    assert other.boot_us(1_000_000_000, now) == now // 1000
    assert other.boot_us(1_100_000_000, now + 90_000_000) == (now + 90_000_000) // 1000  # arrived sooner: closer


def test_a_missing_sensor_is_said_when_it_is_opened():
    sensors().absent = 9
    with pytest.raises(SensorMissing, match="sensor-absent"):
        open_one("gravity")
    assert absent_sensors()["gravity"] == "this phone has no 'gravity'"
    assert absent_sensors()["accelerometer"] == ""
    with pytest.raises(SensorMissing, match="sensor-absent"):
        open_one("smell")


def test_a_permission_that_comes_and_goes_is_a_state():
    source = open_one("steps", every_us=1_000_000)
    assert "ACTIVITY_RECOGNITION is not granted" in source.trouble
    assert not sensors().listening(STEPS)
    Context.grant(ACTIVITY)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    sensors().fire(STEPS, boot_ns(), 4321.0, 0, 0)
    assert source.read(boot_ns() // 1000).columns["steps"].tolist() == [4321]
    Context.revoke(ACTIVITY)
    source.read(boot_ns() // 1000)
    assert "was taken away" in source.trouble
    assert not sensors().listening(STEPS)
    Context.grant(ACTIVITY)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    source.close()


def test_before_android_10_steps_need_no_permission():
    Version.SDK_INT = 28
    assert open_one("steps").trouble == ""


def test_what_android_refuses_is_said_and_tried_again():
    sensors().refuses = True
    source = open_one("accelerometer", every_us=1_000)
    assert "sampling rate" in source.trouble
    sensors().refuses, sensors().fails = False, True
    source.read(boot_ns() // 1000)
    assert "does not start" in source.trouble
    sensors().fails = False
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    source.close()


def test_a_sensor_that_android_silenced_is_registered_anew_and_says_so(monkeypatch):
    monkeypatch.setattr(android, "SILENT_AFTER_S", -11.0)
    source = open_one("accelerometer", every_us=1_000)
    wait_for(lambda: source.read(boot_ns() // 1000) is not None and "has said nothing" in source.trouble)
    sensors().fire(ACCELEROMETER, boot_ns(), 1.0, 1.0, 1.0)
    monkeypatch.setattr(android, "SILENT_AFTER_S", 10.0)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    source.close()


# --- what speaks when it changes, and the battery -----------------------------------------------------------------


def test_light_is_read_in_the_dark_and_off_with_its_source():
    source = open_one("light", every_us=1_000)
    assert len(source.read(boot_ns() // 1000)) == 0  # switched on, nothing said yet
    sensors().fire(LIGHT, 1, 320.0, 0, 0)
    assert source.read(boot_ns() // 1000 + 10_000).columns["lux"].tolist() == [320.0]
    sensors().fire(LIGHT, 1, 0.0, 0, 0)
    assert source.read(boot_ns() // 1000 + 20_000).columns["lux"].tolist() == [0.0]
    assert source.read(boot_ns() // 1000 + 30_000).columns["lux"].tolist() == [0.0], "unchanged is a reading too"
    source.close()
    assert not sensors().listening(LIGHT)


@pytest.mark.parametrize(
    ("sensor", "kind", "value", "column", "expected"),
    [
        ("humidity", 12, 55.0, "percent", 55.0),  # the sensor's own percent, not grams of water in a cubic metre
        ("temperature", 13, 21.5, "celsius", 21.5),
        ("barometer", 6, 1013.25, "hpa", 1013.25),
        ("proximity", 8, 0.0, "near", True),
        ("proximity", 8, 8.0, "near", False),
    ],
)
def test_slow_sensors_are_told_in_the_unit_of_their_column(sensor, kind, value, column, expected):
    source = open_one(sensor, every_us=1_000)
    source.read(boot_ns() // 1000)
    sensors().fire(13, 1, 21.5, 0, 0)  # plyer reckons humidity from both
    sensors().fire(kind, 1, value, 0, 0)
    assert source.read(boot_ns() // 1000 + 10_000).columns[column].tolist() == [expected]
    source.close()


def test_a_slow_sensor_that_android_refuses_is_said_and_tried_again():
    sensors().fails = True
    source = open_one("light", every_us=1_000)
    source.read(boot_ns() // 1000)
    assert "does not start" in source.trouble
    sensors().fails = False
    source.read(boot_ns() // 1000 + 10_000)
    assert source.trouble == ""
    sensors().absent = 12
    with pytest.raises(SensorMissing, match="sensor-absent"):
        open_one("humidity")


def test_plyer_reads_the_battery():
    Context.batteryStatus, Context.batteryLevel = 2, 81
    source = open_one("battery", every_us=1_000)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["level"].tolist() == [0.81]
    assert samples.columns["charging"].tolist() == [True]


# --- positions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api", "provider"), [(36, "fused"), (31, "fused"), (30, "gps"), (26, "gps")])
def test_positions_come_by_the_callback_of_each_android(api, provider):
    """Since Android 12 the system calls the form that takes a list."""
    Version.SDK_INT = api
    source = open_one("gps", every_us=5_000_000)
    assert "location permission" in source.trouble
    Context.grant(LOCATION)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    assert location().period == 5000
    measured = boot_ns() - 8_000_000_000
    location().fix(47.3769, 8.5417, measured)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["lat"].tolist() == [47.3769]
    assert samples.columns["accuracy"].tolist() == [12.5]
    assert samples.columns["provider"].tolist() == [provider]
    assert samples.time_us.tolist() == [measured // 1000], "when it was measured, not when it arrived"
    location().fix(47.0, 8.0, boot_ns(), True)
    later = source.read(boot_ns() // 1000 + 1)
    assert np.isnan([later.columns[name][-1] for name in ("altitude", "speed", "bearing")]).all()
    location().off()
    assert "switched off" in source.trouble
    source.close()
    assert location().listener is None


def test_one_provider_is_asked_and_a_phone_without_any_says_so():
    Context.grant(LOCATION)
    location().only("network")
    source = open_one("gps")
    assert location().provider == "network"
    source.close()
    location().only("passive")
    assert "no way to tell its position" in open_one("gps").trouble


def test_silence_is_a_trouble_until_a_fix_comes(monkeypatch):
    Context.grant(LOCATION)
    source = open_one("gps", every_us=1_000_000)
    assert source.trouble == ""
    monkeypatch.setattr(position, "SILENT_AFTER_S", -100.0)
    assert "no position for" in source.trouble
    monkeypatch.setattr(position, "SILENT_AFTER_S", 120.0)
    location().fix(47.0, 8.0, boot_ns())
    assert len(source.read(boot_ns() // 1000 + 10)) == 1
    assert source.trouble == ""
    source.close()


def test_positions_pause_while_the_phone_lies_still_and_motion_wakes_them():
    Context.grant(LOCATION)
    now = [0.0]
    source = PausesWhenStill(
        open_android("gps", every_us=1_000_000, from_us=0, event_time=lambda boot_us: boot_us),
        is_wanted=lambda: True, now=lambda: now[0],
    )  # fmt: skip
    assert location().listener is not None
    for now[0] in (60.0, 180.0, 301.0):
        source.read(1 << 60)
    assert source.is_paused
    assert location().listener is None, "the receiver rests"
    assert source.trouble == ""
    phone, woken = PhoneSleep(), Waits(lambda _seconds: sensors().trigger(SIGNIFICANT_MOTION))
    phone.sleep(900.0, woken)
    assert woken.woken == 1, "motion wakes the loop, whose processor sleeps"
    phone.close()
    source.read(1 << 60)
    assert location().listener is not None
    for now[0] in (500.0, 700.0):
        source.read(1 << 60)
    source.close()
    assert not sensors().trigger(SIGNIFICANT_MOTION), "nobody asks for it any more"
    sensors().absent = SIGNIFICANT_MOTION
    assert not position.SignificantMotion().arm()
    sensors().absent = -1


def test_a_ring_of_positions_keeps_the_newest_and_counts_the_rest():
    Context.grant(LOCATION)
    source = open_one("gps", every_us=1)
    for number in range(position.RING_FIXES + 3):
        location().fix(float(number), 0.0, boot_ns())
    samples = source.read(boot_ns() // 1000 + 10)
    assert (samples.columns["lat"][0], samples.overruns) == (3.0, 3)
    source.close()


# --- sound and network -------------------------------------------------------------------------------------------


def test_the_microphone_gives_a_level_and_no_sound():
    recorder = autoclass("android.media.AudioRecord")
    source = open_microphone(every_us=1, from_us=0)
    clock = iter(range(10, 10_000_000, 10))
    assert len(source.read(next(clock))) == 0
    assert "RECORD_AUDIO" in source.trouble
    Context.grant("android.permission.RECORD_AUDIO")
    found: list = []
    wait_for(lambda: found.append(source.read(next(clock))) or len(found[-1]))
    assert source.trouble == ""
    assert found[-1].columns["dbfs"].tolist() == pytest.approx([-20.0], abs=0.01)  # a tenth of full scale
    recorder.level = 0
    wait_for(lambda: source.read(next(clock)) is not None and "not on the screen" in source.trouble)
    recorder.level = 3277
    wait_for(lambda: source.read(next(clock)) is not None and source.trouble == "")
    source.close()
    wait_for(lambda: recorder.running == 0)
    recorder.broken = True
    assert len(open_microphone(every_us=1, from_us=0).read(10)) == 0
    recorder.broken = False


def test_the_active_network_is_told_with_what_it_costs():
    manager = context.system_service("connectivity", "android.net.ConnectivityManager")
    manager.leave()
    assert android_network.read() == Network("none")
    manager.join([1], [11, 18])
    assert android_network.read() == Network("wifi")
    manager.join([0], [])
    assert android_network.read() == Network("cellular", metered=True, roaming=True)


# --- the service and the app ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "reads", "located", "forbidden", "expected"),
    [
        (36, True, True, -1, 0x8),  # location
        (36, False, True, -1, 0x100),  # positions are allowed, but nobody reads any: it must not say that it does
        (36, True, False, -1, 0x100),  # health: needs no permission a person can refuse
        (36, True, True, 0x8, 0x100),  # after boot without background location
        (30, True, False, -1, 0),  # before Android 14 a service may have no type
        (26, True, True, -1, 0),
    ],
)
def test_the_service_stands_in_the_foreground_with_one_type_that_is_allowed(
    tmp_path, api, reads, located, forbidden, expected
):
    Version.SDK_INT = api
    Context.files = autoclass("java.io.File")(str(tmp_path))
    if reads:
        (tmp_path / POSITIONS_FILE).touch()
    if located:
        Context.grant(LOCATION)
    service = recording_service.service()
    service.forbiddenType = forbidden
    recording_service.show_status("Recording", "12 readings")
    assert service.shownType == expected
    assert (service.shown.title, service.shown.text) == ("Recording", "12 readings")
    assert service.shown.ongoing


def notices():
    return context.system_service("notification", "android.app.NotificationManager")


@pytest.mark.parametrize("refused", ["type", "background"])
def test_a_service_that_android_refuses_ends_and_leaves_a_notice(refused, tmp_path):
    """Also a sticky one that the system itself started again in the background (Android 12 and later)."""
    Context.files = autoclass("java.io.File")(str(tmp_path))
    service = recording_service.service()
    service.forbiddenType, service.background = (0x100, False) if refused == "type" else (-1, True)
    notices().standing.clear()
    service.onStartCommand(None, 0, 1)
    assert service.stopped
    left = notices().ordinary()
    assert "Open the app to go on" in left.text
    assert left.wholeText == left.text
    assert left.goesWithTap
    service.onStartCommand(None, 0, 2)
    assert notices().ordinary() is None, "it runs again: the notice is over"


def test_a_person_stops_it_from_the_notification():
    service = recording_service.service()
    recording_service.show_status("Recording", "12 readings")
    assert service.shown.action.title == "Stop"
    asked: list[bool] = []
    recording_service.on_stop_asked(lambda: asked.append(True))
    service.onStartCommand(service.shown.action.intent.intent, 0, 2)
    assert asked == [True]
    assert not service.stopped, "Python leaves everything durable first"
    recording_service.end()
    assert service.stopped


def test_a_tap_on_the_notification_opens_the_app():
    recording_service.show_status("Recording", "")
    assert recording_service.service().shown.open.intent.target.getName() == "org.resurge.phone.MainActivity"


def test_the_notification_has_a_channel_people_can_see():
    recording_service.show_status("Recording", "")
    channel = notices().channel
    assert (channel.id, channel.importance) == ("recording", 2)


def test_the_wake_lock_is_partial_and_given_back():
    lock = power.WakeLock()
    newest = autoclass("android.os.PowerManager").newest
    assert (newest.kind, newest.isHeld()) == (1, True)
    lock.release()
    lock.release()
    assert not newest.isHeld()


def test_a_phone_hears_broadcasts_only_while_it_is_in_a_region():
    Context.grant("android.permission.CHANGE_WIFI_MULTICAST_STATE")
    phone = PhoneSleep()
    rest = OnBattery(phone)
    rest.listen(on=False)
    assert autoclass("android.net.wifi.WifiManager").newest is None, "nobody asked for it"
    rest.listen(on=True)
    lock = autoclass("android.net.wifi.WifiManager").newest
    assert lock.isHeld()
    rest.listen(on=False)
    assert not lock.isHeld()
    rest.listen(on=True)
    phone.close()
    assert not lock.isHeld()


class Waits:
    """In the place of the uplink: what happens while the loop waits."""

    def __init__(self, meanwhile: Callable[[float], None]) -> None:
        self.wait = meanwhile
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_the_processor_sleeps_between_turns_and_an_alarm_or_a_position_wakes_it():
    phone = PhoneSleep()
    lock = autoclass("android.os.PowerManager").newest
    alarms = context.system_service("alarm", "android.app.AlarmManager")
    assert lock.isHeld()

    def until_the_alarm(seconds: float) -> None:
        assert seconds == 900.0
        assert not lock.isHeld(), "the processor may sleep"
        assert (alarms.type, alarms.at) == (2, 1000 + 900_000)
        alarms.ring()
        assert lock.isHeld(), "before the receiver returns: Android lets the processor sleep then"

    waits = Waits(until_the_alarm)
    phone.sleep(900.0, waits)
    assert waits.woken == 1
    assert lock.isHeld()
    assert alarms.pending is None, "it was woken: no second wake for the same"
    Context.grant(LOCATION)
    source = open_one("gps", every_us=60_000_000)
    waits = Waits(lambda _seconds: location().fix(47.0, 8.0, boot_ns()))
    phone.sleep(900.0, waits)
    assert waits.woken == 1
    source.close()
    network = context.system_service("connectivity", "android.net.ConnectivityManager")
    assert not phone.radio_up()
    network.active = True
    assert phone.radio_up()
    phone.close()
    assert not lock.isHeld()


def test_after_boot_the_service_goes_on_only_if_it_ran_before(tmp_path: Path):
    Context.files = autoclass("java.io.File")(str(tmp_path))
    Context.startedForeground.clear()
    receiver = autoclass("org.resurge.phone.BootReceiver")()
    intent = autoclass("android.content.Intent")("android.intent.action.BOOT_COMPLETED")
    receiver.onReceive(context.context(), intent)
    assert Context.startedForeground.size() == 0
    (tmp_path / "resume-after-boot").touch()
    receiver.onReceive(context.context(), intent)
    assert Context.startedForeground.size() == 1
    receiver.onReceive(context.context(), autoclass("android.content.Intent")("another.action"))
    assert Context.startedForeground.size() == 1
    notices().standing.clear()
    Context.refusesForeground = True
    receiver.onReceive(context.context(), intent)
    Context.refusesForeground = False
    assert "Open the app to go on" in notices().ordinary().text


def test_an_app_with_another_id_starts_its_own_service_and_shows_its_own_name(tmp_path: Path):
    """The service's class is generated in the app's package; our classes stay where they are."""
    PackageManager = autoclass("android.content.pm.PackageManager")
    Context.files = autoclass("java.io.File")(str(tmp_path))
    (tmp_path / "resume-after-boot").touch()
    Context.startedForeground.clear()
    Context.packageName, PackageManager.label = "org.example.walks", "Walks"
    try:
        boot = autoclass("android.content.Intent")("android.intent.action.BOOT_COMPLETED")
        autoclass("org.resurge.phone.BootReceiver")().onReceive(context.context(), boot)
        recording_service.show_status("", "12 readings")
        Context.started.clear()
        screen.start_service()
    finally:
        Context.packageName, PackageManager.label = "org.resurge.phone", "Resurge"
    assert Context.startedForeground.get(0).target.getName() == "org.example.walks.ServiceNode"
    assert Context.started.get(0).target.getName() == "org.example.walks.ServiceNode"
    assert recording_service.service().shown.title == "Walks"


def test_an_export_is_readable_by_its_name_only(tmp_path: Path):
    Context.files = autoclass("java.io.File")(str(tmp_path))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "walk.csv").write_text("time,x\n")
    (tmp_path / "device.key").write_text("secret")
    provider = autoclass("org.resurge.phone.ExportProvider")()
    uri = autoclass("android.net.Uri")
    shared = uri.parse("content://org.resurge.phone.exports/walk.csv")
    assert provider.openFile(shared, "r").file.getName() == "walk.csv"
    assert provider.getType(shared) == "text/csv"
    for name, mode in (("..%2Fdevice.key", "r"), ("walk.csv", "rw"), ("none.csv", "r"), ("..", "r")):
        with pytest.raises(JavaException, match="FileNotFound"):
            provider.openFile(uri.parse(f"content://org.resurge.phone.exports/{name}"), mode)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The other process: an activity instead of a service."""
    monkeypatch.delenv("PYTHON_SERVICE_ARGUMENT")
    monkeypatch.setenv("ANDROID_PRIVATE", str(tmp_path))
    Context.files = autoclass("java.io.File")(str(tmp_path))
    Context.started.clear()
    return autoclass("org.kivy.android.PythonActivity").mActivity


def test_the_app_starts_the_service_and_knows_its_surroundings(app, tmp_path):
    assert screen.home() == tmp_path / "data"
    assert screen.dark_mode() is False
    app.getResources().getConfiguration().uiMode = 0x21
    assert screen.dark_mode() is True
    screen.start_service()
    assert Context.started.size() == 1
    Version.SDK_INT = 29
    assert screen.insets() == (0, 0, 0, 0)


def test_a_pairing_link_arrives_with_the_intent_that_opened_the_app(app):
    assert screen.pairing_link() == ""
    app.getIntent().setData(autoclass("android.net.Uri").parse("resurge://host:8750/#code"))
    assert screen.pairing_link() == "resurge://host:8750/#code"
    assert screen.pairing_link() == "", "a link is good once, and the app asks whenever it comes back"
    app.getIntent().setData(autoclass("android.net.Uri").parse("https://elsewhere/"))
    assert screen.pairing_link() == ""


def test_a_link_that_an_app_from_the_recent_ones_is_opened_with_again_is_old(app):
    app.getIntent().setData(autoclass("android.net.Uri").parse("resurge://host:8750/#code"))
    app.getIntent().addFlags(screen.LAUNCHED_FROM_HISTORY)
    assert screen.pairing_link() == ""


def test_an_export_is_shared_as_a_copy_with_a_grant(app, tmp_path):
    export = tmp_path / "walk.gpx"
    export.write_text("<gpx/>")
    screen.share(str(export), "application/gpx+xml")
    chooser = Context.started.get(0)
    assert chooser.action == "android.intent.action.CHOOSER"
    assert chooser.flags == 1
    assert (tmp_path / "shared" / "walk.gpx").read_text() == "<gpx/>"


def test_settings_are_opened_for_this_app(app):
    screen.open_settings("permissions")
    screen.open_settings("battery")
    assert Context.started.size() == 2
    assert Context.started.get(0).data.toString() == "package:org.resurge.phone"


def test_permissions_are_asked_for_where_they_are_needed(app):
    import android.permissions as asked  # the stand-in of python-for-android's module, on_jvm/android

    asked.requests.clear()
    asked.answers = {LOCATION: True, "android.permission.ACCESS_COARSE_LOCATION": True, ACTIVITY: False}
    platform, told = AndroidPlatform(), []

    def last() -> str:
        return asked.requests[-1][0].rpartition(".")[2]

    platform.ask_permissions(["gps"], lambda: told.append(True))
    assert (len(asked.requests), last(), told) == (1, "ACCESS_FINE_LOCATION", [True])
    Context.grant(LOCATION)
    platform.ask_permissions(["accelerometer"], lambda: None)
    assert len(asked.requests) == 1, "nothing guards it"
    for name, permission in (
        ("background location", "ACCESS_BACKGROUND_LOCATION"),
        ("notifications", "POST_NOTIFICATIONS"),
    ):
        platform.ask_permission(name)
        assert last() == permission
    platform.ask_permissions(["steps"], lambda: None)
    assert last() == "ACTIVITY_RECOGNITION"
    assert {entry["name"] for entry in platform.missing_permissions(["steps"])} >= {"activity", "battery exemption"}
    assert "background location" not in {entry["name"] for entry in platform.missing_permissions(["steps"])}


def test_the_app_starts_the_service_by_itself_only_where_its_person_left_it_running(app, tmp_path):
    platform = AndroidPlatform()
    assert not platform.wants_service()
    (tmp_path / RESUME_FILE).touch()
    assert platform.wants_service()


@pytest.mark.parametrize("api", [36, 33, 30])
def test_back_reaches_the_app_on_every_android(app, api):
    """Android 16 sends no key to an app that targets it, and leaves one that has not registered."""
    Version.SDK_INT = api
    SDLActivity = autoclass("org.libsdl.app.SDLActivity")
    SDLActivity.keys.clear()
    activity = autoclass("org.resurge.phone.MainActivity")()
    activity.create()
    activity.afterUnpacking()
    activity.goBack()
    assert not activity.left
    assert [SDLActivity.keys.get(number) for number in range(SDLActivity.keys.size())] == ["down 4", "up 4"]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0, 0, 1080, 2340), (0, 63, 0, 42)),  # Android 15: the app draws under the bars
        ((0, 63, 1080, 2298), (0, 0, 0, 0)),  # Android 11 to 14: the system has left them room
    ],
)
def test_what_the_bars_take_is_counted_once(app, bounds, expected):
    surface = autoclass("org.kivy.android.PythonActivity").getSurface()
    surface.x, surface.y = bounds[:2]
    surface.width, surface.height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    assert screen.insets() == expected
    surface.x, surface.y, surface.width, surface.height = 0, 0, 1080, 2340


def test_icons_in_the_bars_can_be_seen(app):
    window = autoclass("android.view.Window")
    screen.show_bars(light_page=True)
    assert window.barsAppearance == 8 | 16
    screen.show_bars(light_page=False)
    assert window.barsAppearance == 0
    Version.SDK_INT = 29
    screen.show_bars(light_page=True)


# --- unpacking -------------------------------------------------------------------------------------------------------


@pytest.fixture
def resources(app, tmp_path):
    """The phone's files and the version of the APK that is installed; the first start's unpacking is done."""
    resources, extract = autoclass("android.content.res.Resources"), autoclass("org.renpy.android.AssetExtract")
    resources.privateVersion = "version-1"
    extract.done = 0
    Context.stopped.clear()
    return resources


def start_activity():
    activity = autoclass("org.resurge.phone.MainActivity")()
    activity.create()
    return activity


def test_after_an_update_the_service_unpacks_the_new_python_before_it_runs_it(resources, tmp_path):
    start_activity().afterUnpacking()
    assert (tmp_path / "app" / "private.py").read_text() == "version-1"
    resources.privateVersion = "version-2"  # the update; the boot receiver starts the service, nobody opens the app
    service = autoclass("org.resurge.phone.ServiceNode")()
    with pytest.raises(JavaException, match="UnsatisfiedLinkError"):  # libraries that only a phone has
        service.run()
    assert (tmp_path / "app" / "private.py").read_text() == "version-2"


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("who", ["service", "activity"])
def test_whoever_unpacks_waits_for_the_other_process(resources, tmp_path, who):
    lock = tmp_path / "unpacking.lock"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    activity = autoclass("org.resurge.phone.MainActivity")()
    service = cast("java.lang.Runnable", autoclass("org.resurge.phone.ServiceNode")())
    java_thread = autoclass("java.lang.Thread")(service)
    opening = threading.Thread(target=activity.create)
    (java_thread if who == "service" else opening).start()
    inode = str(lock.stat().st_ino)
    wait_for(lambda: any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines()))
    extract = autoclass("org.renpy.android.AssetExtract")
    assert extract.done == 0
    other.communicate()
    if who == "service":
        java_thread.join()
    else:
        opening.join()
        activity.afterUnpacking()
    assert extract.done == 2  # private.tar and the bundle
    start_activity().afterUnpacking()
    assert extract.done == 2, "what is unpacked is not unpacked again"


def test_opening_an_update_ends_the_service_whose_files_it_replaces(resources):
    start_activity().afterUnpacking()
    assert Context.stopped.size() == 1, "nothing was unpacked before"
    start_activity().afterUnpacking()
    assert Context.stopped.size() == 1, "the same version: the service goes on"
    resources.privateVersion = "version-2"
    start_activity().afterUnpacking()
    assert Context.stopped.size() == 2


def test_the_environment_is_the_services():
    assert "PYTHON_SERVICE_ARGUMENT" in os.environ
    assert isinstance(AndroidSensor, type)
