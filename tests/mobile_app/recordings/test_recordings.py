"""Named recordings: durable within the loss window, whole after a kill, readable by others, gone when deleted."""

from __future__ import annotations

import csv
import errno
import io
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mobile_app.recordings.export import clear_old_exports, export
from mobile_app.recordings.store import Recordings
from mobile_app.sensors.file_formats import load
from mobile_app.sensors.source import Samples
from mobile_app.sensors.synthetic import Synthetic
from mobile_app.spool.cipher import SpoolCipher, new_key
from shared.errors import UsageError
from shared.identity import DeviceId
from shared.spool.disk import PosixFile

DEVICE = DeviceId(b"d" * 16)
START_US = 1_700_000_000_000_000
KEY = new_key()


def opened(home: Path, loss_window_s: float = 1.0) -> Recordings:
    return Recordings(home, DEVICE, SpoolCipher(KEY), loss_window_s=loss_window_s)


def readings(sensor: str, seconds: float, every_us: int = 100_000, start_us: int = START_US) -> Samples:
    source = Synthetic(sensor, seed=5, every_us=every_us, origin_us=START_US, from_us=start_us)
    return source.read(start_us + round(seconds * 1e6))


def kept(recordings: Recordings, recording: str) -> dict[str, np.ndarray]:
    """{sensor: event times} of everything durable."""
    times: dict[str, list[np.ndarray]] = {}
    for sensor, batch in recordings.rows(recording):
        times.setdefault(sensor, []).append(batch.time_us)
    return {sensor: np.concatenate(parts) for sensor, parts in times.items()}


def test_a_recording_keeps_every_reading_and_its_markers_bit_for_bit(tmp_path):
    recordings = opened(tmp_path)
    about = recordings.start("Walk home", {"gps": 1_000_000, "accelerometer": 100_000}, START_US)
    shaken, placed = readings("accelerometer", 20), readings("gps", 20, 1_000_000)
    recordings.take("accelerometer", shaken)
    recordings.take("gps", placed)
    recordings.take("light", shaken)  # nobody asked for it
    recordings.marker("stairs", START_US + 5_000_000)
    summary = recordings.stop(START_US + 20_000_000)
    assert summary["readings"] == {"accelerometer": 200, "gps": 20}
    assert summary["markers"] == [{"label": "stairs", "time_us": START_US + 5_000_000}]
    again = opened(tmp_path)
    assert again.running is None
    batches = [batch for sensor, batch in again.rows(about.id) if sensor == "accelerometer"]
    for name in ("x", "y", "z"):
        assert np.array_equal(np.concatenate([batch.columns[name] for batch in batches]), shaken.columns[name])


def test_what_waited_as_long_as_it_may_survives_a_kill_and_the_recording_goes_on(tmp_path):
    recordings = opened(tmp_path)
    about = recordings.start("run", {"accelerometer": 100_000}, START_US)
    recordings.take("accelerometer", readings("accelerometer", 2))
    recordings.commit(10.0)
    recordings.commit(11.5)  # the window has passed: this one is durable
    recordings.take("accelerometer", readings("accelerometer", 1, start_us=START_US + 2_000_000))
    recordings.leave()  # as a kill
    again = opened(tmp_path)
    assert again.running is not None
    assert len(kept(again, about.id)["accelerometer"]) == 20
    later = readings("accelerometer", 1, start_us=START_US + 10_000_000)
    again.take("accelerometer", later)
    assert again.stop(START_US + 11_000_000)["readings"] == {"accelerometer": 30}
    times = kept(again, about.id)["accelerometer"]
    assert np.array_equal(times[20:], later.time_us)


@pytest.mark.parametrize("cut", [1, 7, 50, 300])
def test_a_torn_write_leaves_a_whole_prefix(tmp_path, cut):
    recordings = opened(tmp_path)
    about = recordings.start("run", {"accelerometer": 100_000}, START_US)
    recordings.take("accelerometer", readings("accelerometer", 5))
    recordings.marker("one", START_US)
    whole = (tmp_path / "recordings" / about.id / "rows").stat().st_size
    recordings.take("accelerometer", readings("accelerometer", 5, start_us=START_US + 5_000_000))
    recordings.marker("two", START_US + 5_000_000)
    recordings.leave()
    rows = tmp_path / "recordings" / about.id / "rows"
    rows.write_bytes(rows.read_bytes()[:-cut])
    again = opened(tmp_path)
    assert len(kept(again, about.id)["accelerometer"]) in (50, 100)
    assert again.running.writer.bytes >= whole
    assert again.stop(START_US + 10_000_000)["ended_us"]


def test_a_disk_that_refuses_keeps_what_was_written_and_takes_the_rest_later(tmp_path, monkeypatch):
    recordings = opened(tmp_path)
    about = recordings.start("run", {"accelerometer": 100_000}, START_US)
    recordings.take("accelerometer", readings("accelerometer", 2))
    recordings.marker("one", START_US)
    recordings.take("accelerometer", readings("accelerometer", 2, start_us=START_US + 2_000_000))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PosixFile, "write", full)
        with pytest.raises(OSError, match="No space"):
            recordings.marker("two", START_US + 2_000_000)
    assert len(kept(recordings, about.id)["accelerometer"]) == 20
    assert recordings.stop(START_US + 4_000_000)["readings"] == {"accelerometer": 40}


def test_a_stolen_copy_of_the_rows_is_unreadable_without_the_key(tmp_path):
    recordings = opened(tmp_path)
    about = recordings.start("secret place", {"gps": 1_000_000}, START_US)
    recordings.marker("secret label", START_US)
    recordings.stop(START_US + 1)
    assert b"secret label" not in (tmp_path / "recordings" / about.id / "rows").read_bytes()
    with_other_key = Recordings(tmp_path, DEVICE, SpoolCipher(new_key()), loss_window_s=1.0)
    assert list(with_other_key.rows(about.id)) == []


def test_renaming_and_deleting_and_what_is_refused(tmp_path):
    recordings = opened(tmp_path)
    with pytest.raises(UsageError, match="recording-none"):
        recordings.marker("x", START_US)
    with pytest.raises(UsageError, match="recording-sensors"):
        recordings.start("x", {}, START_US)
    about = recordings.start("", {"gps": 1_000_000}, START_US)
    with pytest.raises(UsageError, match="recording-running"):
        recordings.start("y", {"gps": 1_000_000}, START_US)
    with pytest.raises(UsageError, match="recording-running"):
        recordings.delete(about.id)
    recordings.stop(START_US + 1)
    assert recordings.rename(about.id, " The \n hill\x00 ")["name"] == "The  hill"
    with pytest.raises(UsageError, match="recording-unknown"):
        recordings.delete("../../etc")
    recordings.delete(about.id)
    assert recordings.summaries() == []
    assert list((tmp_path / "recordings").iterdir()) == []


def test_limits_are_told(tmp_path):
    recordings = opened(tmp_path)
    assert recordings.room(recordings_mb=10, free_mb=0) == ""
    assert "limit of 0 MB" in recordings.room(recordings_mb=0, free_mb=0)
    recordings.start("x", {"gps": 1_000_000}, START_US)
    assert "free on this device" in recordings.room(recordings_mb=10, free_mb=1 << 40)


def recorded(home: Path) -> tuple[Recordings, str, Samples, Samples]:
    recordings = opened(home)
    about = recordings.start("Äpfel & <Birnen>", {"gps": 1_000_000, "accelerometer": 100_000}, START_US)
    placed, shaken = readings("gps", 10, 1_000_000), readings("accelerometer", 10)
    recordings.take("gps", placed)
    recordings.take("accelerometer", shaken)
    recordings.marker("at the <door>", START_US + 3_200_000)
    recordings.stop(START_US + 10_000_000)
    return recordings, about.id, placed, shaken


def test_the_zip_has_a_csv_per_sensor_that_reads_back_to_the_same_numbers(tmp_path):
    recordings, recording, placed, shaken = recorded(tmp_path)
    path = export(tmp_path, recordings, recording, "zip")
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["about.json", "accelerometer.csv", "gps.csv", "markers.csv", "track.gpx"]
        for sensor, samples in (("gps", placed), ("accelerometer", shaken)):
            (tmp_path / f"{sensor}.csv").write_bytes(archive.read(f"{sensor}.csv"))
            track = load(tmp_path / f"{sensor}.csv")
            assert np.array_equal(track.time_us, samples.time_us)
            for name, column in samples.columns.items():
                assert np.array_equal(track.columns[name], column)
        title = archive.read("accelerometer.csv").decode().splitlines()[0]
    assert title == "time,elapsed (s),x (m/s^2),y (m/s^2),z (m/s^2)"


def test_the_csv_has_every_reading_in_order_of_time(tmp_path):
    recordings, recording, placed, shaken = recorded(tmp_path)
    table = list(csv.DictReader(io.StringIO(export(tmp_path, recordings, recording, "csv").read_text("utf-8"))))
    assert len(table) == len(placed) + len(shaken) + 1
    assert [row["marker"] for row in table if row["marker"]] == ["at the <door>"]
    elapsed = [float(row["elapsed (s)"]) for row in table]
    assert elapsed == sorted(elapsed)
    lats = [float(row["gps lat (deg)"]) for row in table if row["sensor"] == "gps"]
    assert lats == placed.columns["lat"].tolist()


def test_the_gpx_has_the_track_and_the_markers_where_they_were_set(tmp_path):
    recordings, recording, placed, _ = recorded(tmp_path)
    path = export(tmp_path, recordings, recording, "gpx")
    track = load(path)
    assert np.array_equal(track.time_us, placed.time_us)
    assert np.array_equal(track.columns["lat"], placed.columns["lat"])
    space = "{http://www.topografix.com/GPX/1/1}"
    marker = ElementTree.parse(path).getroot().find(f"{space}wpt")
    assert marker.find(f"{space}name").text == "at the <door>"
    assert float(marker.attrib["lat"]) == placed.columns["lat"][3]


def test_a_track_needs_positions_and_old_copies_are_removed(tmp_path):
    recordings = opened(tmp_path)
    about = recordings.start("shake", {"accelerometer": 100_000}, START_US)
    recordings.take("accelerometer", readings("accelerometer", 1))
    recordings.stop(START_US + 1_000_000)
    with pytest.raises(UsageError, match="export-gpx"):
        export(tmp_path, recordings, about.id, "gpx")
    with pytest.raises(UsageError, match="export-kind"):
        export(tmp_path, recordings, about.id, "exe")
    path = export(tmp_path, recordings, about.id, "csv")
    clear_old_exports(tmp_path, path.stat().st_mtime + 3600)
    assert path.exists()
    clear_old_exports(tmp_path, path.stat().st_mtime + 90_000)
    assert not path.exists()
