"""Zipped exports are read as the apps write them; archives that are something else are refused before they are read."""

from __future__ import annotations

import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from resurge.examples.trips import archives
from resurge.examples.trips.archives import unpack
from resurge.examples.trips.people import read_people
from shared.errors import UsageError

LOCATION = (
    "time,seconds_elapsed,horizontalAccuracy,speed,bearing,altitude,longitude,latitude\n"
    "1679068248793000000,1.594,24.3,0,0,586.5,8.51,47.40\n1679068249793000000,2.594,24.3,0,0,586.5,8.52,47.41\n"
)
ACCELEROMETER = "time,seconds_elapsed,z,y,x\n1679068248793000000,0,0.1,0.2,0.3\n"
RAW_GPS = (
    '"Time (s)";"Latitude (°)";"Longitude (°)";"Height (m)";"Velocity (m/s)";"Direction (°)";"Horizontal Accuracy (m)"\n'
    "0,5;50,1;6,1;200;1,0;90;5\n1,5;50,2;6,1;200;1,0;90;5\n"
)
GPX = (
    '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
    '<trkpt lat="47.1" lon="8.1"><time>2020-03-04T10:00:00Z</time></trkpt></trkseg></trk></gpx>'
)


def packed(path: Path, files: dict[str, str], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.covers("SO-36")
def test_zipped_exports_become_people(tmp_path):
    packed(
        tmp_path / "bob-2023-03-17.zip",
        {"Location.csv": LOCATION, "Accelerometer.csv": ACCELEROMETER, "Metadata.csv": "x"},
    )
    packed(tmp_path / "eve.zip", {"Raw Data.csv": RAW_GPS, "meta/device.csv": "property,value\n"})
    packed(
        tmp_path / "all.ZIP",
        {"000/Trajectory/1.plt": "\n" * 6 + "39.9,116.3,0,492,39744.12,2008-10-23,02:53:04\n", "ann/a.gpx": GPX},
    )
    (tmp_path / "tom.gpx").write_text(GPX)
    people = {person.name: person.sensors for person in read_people(tmp_path)}
    assert sorted(people) == ["000", "ann", "bob-2023-03-17", "eve", "tom"]
    assert sorted(people["bob-2023-03-17"]) == ["accelerometer", "gps"]
    assert people["eve"]["gps"]["lat"].tolist() == [50.1, 50.2]


def test_what_macos_adds_to_archives_and_folders_is_no_recording(tmp_path):
    double = "\0\5\26\7" + "Mac OS X"  # AppleDouble: it has a recording's suffix and none of its content
    packed(
        tmp_path / "bob.zip",
        {"Location.csv": LOCATION, "__MACOSX/._Location.csv": double, "__MACOSX/bob/._Location.csv": double},
    )
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "walk.gpx").write_text(GPX)
    (tmp_path / "ann" / "._walk.gpx").write_text(double)
    assert sorted(person.name for person in read_people(tmp_path)) == ["ann", "bob"]


def test_an_export_may_be_named_itself_and_is_the_same_as_its_folder(tmp_path):
    archive = packed(tmp_path / "bob.zip", {"Location.csv": LOCATION})
    folder = tmp_path / "unpacked"
    shutil.unpack_archive(archive, folder / "bob")
    [zipped], [plain] = read_people(archive), read_people(folder)
    assert (zipped.name, plain.name) == ("bob", "bob")
    assert all(
        (zipped.sensors["gps"][name] == column).all()
        for name, column in plain.sensors["gps"].items()
        if name != "altitude"
    )


@pytest.mark.parametrize(
    "name", ["../Location.csv", "/etc/Location.csv", "a/../../Location.csv", "a\\..\\Location.csv", "x" * 300 + ".csv"]
)
def test_a_name_that_leads_out_is_refused_and_nothing_is_written(tmp_path, name):
    archive = packed(tmp_path / "a.zip", {"Location.csv": LOCATION, name: LOCATION})
    with pytest.raises(UsageError, match="example-archive"):
        unpack(archive, tmp_path / "into" / "a")
    assert not list((tmp_path).rglob("*.csv"))


def test_a_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("Location.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UsageError, match="a link"):
        unpack(tmp_path / "a.zip", tmp_path / "into")


def test_what_packs_too_well_is_a_bomb(tmp_path):
    archive = packed(tmp_path / "a.zip", {"Location.csv": "0" * (8 * 1024 * 1024)})
    assert archive.stat().st_size < 20_000
    with pytest.raises(UsageError, match="no recording packs that well"):
        unpack(archive, tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("MEMBERS_MAX", 1, "2 files"),
        ("MEMBER_BYTES_MAX", 100, "at most 100"),
        ("ARCHIVE_BYTES_MAX", 300, "cut it into"),
    ],
)
def test_sizes_are_judged_before_anything_is_read(tmp_path, monkeypatch, limit, value, said):
    monkeypatch.setattr(archives, limit, value)
    archive = packed(tmp_path / "a.zip", {"a/Location.csv": LOCATION, "b/Location.csv": LOCATION})
    with pytest.raises(UsageError, match=said):
        unpack(archive, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_an_archive_that_lies_about_its_length_is_refused(tmp_path):
    archive = packed(tmp_path / "a.zip", {"Location.csv": LOCATION}, zipfile.ZIP_STORED)
    data = bytearray(archive.read_bytes())
    data[data.index(b"47.40")] ^= 1
    archive.write_bytes(data)
    with pytest.raises(UsageError, match="damaged"):
        unpack(archive, tmp_path / "into")
    archive.write_bytes(b"PK nothing")
    with pytest.raises(UsageError, match="damaged"):
        unpack(archive, tmp_path / "into")


def test_a_name_for_a_file_and_a_folder_is_refused(tmp_path):
    archive = packed(tmp_path / "a.zip", {"a.csv": LOCATION, "a.csv/b.csv": LOCATION})
    with pytest.raises(UsageError, match="one name for"):
        unpack(archive, tmp_path / "into")
