"""The phone's pyjnius code, unchanged, on a desktop's Java against stubs of Android. Run by test_on_jvm.py."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from jnius import autoclass, cast

from mobile_app.android import context, power, screen
from mobile_app.sensors.android import network as android_network
from mobile_app.sensors.android import plyer_values
from mobile_app.sensors.android import sources as android
from mobile_app.sensors.android.microphone import open_microphone
from mobile_app.sensors.android.sources import AndroidSensor, StampBase, absent_sensors, open_android
from mobile_app.sensors.network import Network
from mobile_app.sensors.source import SensorMissing, Source
from tests.patience import wait_until

Context = autoclass("android.content.Context")
Version = autoclass("android.os.Build$VERSION")
PythonService = autoclass("org.kivy.android.PythonService")
ACTIVITY = "android.permission.ACTIVITY_RECOGNITION"
LOCATION = "android.permission.ACCESS_FINE_LOCATION"
LIGHT, ACCELEROMETER, STEPS = 5, 1, 19


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
    monkeypatch.setattr(plyer_values, "RETRY_S", 0.0)


def sensors():
    return context.system_service("sensor", "android.hardware.SensorManager")


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
    assert (sensors().period(ACCELEROMETER), sensors().latency) == (100_000, 250_000)
    first = boot_ns() - 3_000_000_000
    for step in range(5):
        sensors().fire(ACCELEROMETER, first + step * 100_000_000, 0.5, -0.25, 9.5)
    samples = source.read(boot_ns() // 1000)
    assert samples.time_us.tolist() == [first // 1000 + step * 100_000 for step in range(5)]
    assert samples.columns["z"].tolist() == [9.5] * 5
    assert source.at(np.asarray([7])).columns["x"].tolist() == [0.5]
    source.close()
    assert not sensors().listening(ACCELEROMETER)


def test_above_fifty_hertz_a_ring_in_java_takes_the_events_and_none_is_lost():
    source = open_one("gyroscope", every_us=2_500)
    assert sensors().listenerOf(4) == "org.resurge.phone.SensorRing"
    first = boot_ns() - 10_000_000_000
    sensors().pump(4, first, 2_500_000, 4000)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["x"].tolist() == list(range(4000))
    assert np.diff(samples.time_us).tolist() == [2500] * 3999
    source.sample_every(100_000)  # a hint slows it down: Python listens itself again
    assert sensors().listenerOf(4) != "org.resurge.phone.SensorRing"
    assert sensors().period(4) == 100_000
    source.close()


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
    monkeypatch.setattr(android, "SILENT_AFTER_S", -1.0)
    source = open_one("accelerometer", every_us=1_000)
    wait_for(lambda: source.read(boot_ns() // 1000) is not None and "has said nothing" in source.trouble)
    sensors().fire(ACCELEROMETER, boot_ns(), 1.0, 1.0, 1.0)
    monkeypatch.setattr(android, "SILENT_AFTER_S", 10.0)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    source.close()


# --- plyer's own Android code ----------------------------------------------------------------------------------


def test_plyer_reads_light_and_takes_its_none_for_darkness():
    source = open_one("light", every_us=1_000)
    assert len(source.read(boot_ns() // 1000)) == 0  # switched on, nothing said yet
    sensors().fire(LIGHT, 1, 320.0, 0, 0)
    assert source.read(boot_ns() // 1000 + 10_000).columns["lux"].tolist() == [320.0]
    sensors().fire(LIGHT, 1, 0.0, 0, 0)
    assert source.read(boot_ns() // 1000 + 20_000).columns["lux"].tolist() == [0.0]
    other = open_one("light", every_us=1_000)  # of the next plan, before the old one is closed
    other.read(boot_ns() // 1000)
    source.close()
    assert sensors().listening(LIGHT)
    other.close()
    assert not sensors().listening(LIGHT)


def test_plyer_reads_the_battery():
    Context.batteryStatus, Context.batteryLevel = 2, 81
    source = open_one("battery", every_us=1_000)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["level"].tolist() == [0.81]
    assert samples.columns["charging"].tolist() == [True]


def test_positions_come_by_plyer_and_a_missing_permission_is_a_state():
    source = open_one("gps", every_us=5_000_000)
    assert "location permission" in source.trouble
    Context.grant(LOCATION)
    source.read(boot_ns() // 1000)
    assert source.trouble == ""
    location = context.system_service("location", "android.location.LocationManager")
    assert location.period == 5000
    location.fix(47.3769, 8.5417)
    samples = source.read(boot_ns() // 1000)
    assert samples.columns["lat"].tolist() == [47.3769]
    assert samples.columns["accuracy"].tolist() == [12.5]
    location.off()
    assert "switched off" in source.trouble
    source.close()
    assert location.listener is None


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


def recording_service():
    return cast("org.resurge.phone.RecordingService", PythonService.mService)


@pytest.mark.parametrize(
    ("api", "located", "forbidden", "expected"),
    [
        (36, True, -1, 0x8),  # location
        (36, False, -1, 0x100),  # health: needs no permission a person can refuse
        (36, True, 0x8, 0x100),  # after boot without background location
        (30, False, -1, 0),  # before Android 14 a service may have no type
        (26, True, -1, 0),
    ],
)
def test_the_service_stands_in_the_foreground_with_one_type_that_is_allowed(api, located, forbidden, expected):
    Version.SDK_INT = api
    if located:
        Context.grant(LOCATION)
    service = recording_service()
    service.forbiddenType = forbidden
    screen.show_status("Recording", "12 readings")
    assert service.shownType == expected
    assert (service.shown.title, service.shown.text) == ("Recording", "12 readings")
    assert service.shown.ongoing


def test_a_service_that_android_refuses_ends_instead_of_crashing():
    service = recording_service()
    service.forbiddenType = 0x100
    assert service.show("Recording", "") is False


def test_the_notification_has_a_channel_people_can_see():
    screen.show_status("Recording", "")
    channel = context.system_service("notification", "android.app.NotificationManager").channel
    assert (channel.id, channel.importance) == ("recording", 2)


def test_the_wake_lock_is_partial_and_given_back():
    lock = power.WakeLock()
    newest = autoclass("android.os.PowerManager").newest
    assert (newest.kind, newest.isHeld()) == (1, True)
    lock.release()
    lock.release()
    assert not newest.isHeld()


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
    from jnius import JavaException

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
    assert screen.insets() == (0, 63, 0, 42)
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


def test_permissions_are_asked_for_in_order_and_the_answers_told(app):
    import android.permissions as asked  # the stand-in of python-for-android's module, on_jvm/android

    asked.answers = {LOCATION: True, "android.permission.ACCESS_COARSE_LOCATION": True, ACTIVITY: False}
    told: list[dict[str, bool]] = []
    screen.ask_permissions(told.append)
    assert [step[0].rpartition(".")[2] for step in asked.requests] == [
        "POST_NOTIFICATIONS", "ACCESS_FINE_LOCATION", "ACCESS_BACKGROUND_LOCATION", "ACTIVITY_RECOGNITION",
    ]  # fmt: skip
    assert told == [
        {
            "notifications": False,
            "location": True,
            "background location": False,
            "activity": False,
            "battery exemption": False,
        }
    ]
    assert {entry["name"] for entry in screen.missing_permissions()} >= {"activity", "battery exemption"}


def test_the_environment_is_the_services():
    assert "PYTHON_SERVICE_ARGUMENT" in os.environ
    assert isinstance(AndroidSensor, type)
