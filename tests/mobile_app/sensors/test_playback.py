"""Recordings: the formats people have, and playing them by event time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mobile_app.sensors import file_formats
from mobile_app.sensors.file_formats import load
from mobile_app.sensors.playback import Recording
from shared.errors import UsageError

ORIGIN_US = 1_700_000_000_000_000

GPX = """<?xml version="1.0"?>
<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
<trkpt lat="47.1" lon="8.5"><ele>431.5</ele><time>2023-03-17T15:50:47Z</time></trkpt>
<trkpt lat="47.2" lon="8.6"><time>2023-03-17T15:50:49.5Z</time><extensions><speed>3.5</speed></extensions></trkpt>
<trkpt lat="47.3" lon="8.7"></trkpt>
</trkseg></trk></gpx>"""

PLT = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n" + (
    "40.013812,116.306483,0,156,39745.9889467593,2008-10-24,23:44:05\n"
    "40.013763,116.306421,0,-777,39745.9889583333,2008-10-24,23:44:06\n"
)

SENSOR_LOGGER = (
    "time,seconds_elapsed,horizontalAccuracy,speed,longitude,latitude\n"
    "1679068248793000000,1.594,24.35,0,8.5104485,47.4072629\n"
    "1679068253712000500,6.513,24.79,0.17,8.5104323,47.4072745\n"
)

PHYPHOX = '"Time (s)";"Acceleration x (m/s^2)";"Acceleration y (m/s^2)";"Absolute acceleration (m/s^2)"\n' + (
    "1,5E-2;0,25;-9,81;9,8\n2,0E-2;0,5;-9,7;9,7\n"
)


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_gpx_points_with_a_time_are_readings(tmp_path):
    samples = load(write(tmp_path, "walk.gpx", GPX))
    assert np.diff(samples.time_us).tolist() == [2_500_000]
    assert samples.columns["lat"].tolist() == [47.1, 47.2]
    assert samples.columns["altitude"][0] == 431.5
    assert np.isnan(samples.columns["altitude"][1])
    assert samples.columns["speed"][1] == 3.5


def test_geolife_altitude_is_metres_and_its_missing_mark_is_nan(tmp_path):
    samples = load(write(tmp_path, "a.plt", PLT))
    assert samples.time_us[0] == 1224891845_000_000
    assert samples.columns["altitude"][0] == pytest.approx(156 * 0.3048)
    assert np.isnan(samples.columns["altitude"][1])


def test_sensor_logger_nanoseconds_become_exact_microseconds_and_our_names(tmp_path):
    samples = load(write(tmp_path, "Location.csv", SENSOR_LOGGER))
    assert samples.time_us.tolist() == [1679068248793000, 1679068253712000]
    assert samples.columns["lat"].tolist() == [47.4072629, 47.4072745]
    assert samples.columns["accuracy"].tolist() == [24.35, 24.79]


def test_phyphox_with_decimal_commas_and_relative_time(tmp_path):
    samples = load(write(tmp_path, "Raw Data.csv", PHYPHOX))
    assert samples.time_us.tolist() == [15_000, 20_000]
    assert samples.columns["x"].tolist() == [0.25, 0.5]
    assert samples.columns["y"].tolist() == [-9.81, -9.7]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2023-03-17T15:50:47Z", "2023-03-17T15:50:48Z"),
        ("1679068247", "1679068248"),
        ("1679068247.0", "1679068248.0"),
        ("1679068247000", "1679068248000"),
        ("1679068247000000", "1679068248000000"),
        ("1679068247000000000", "1679068248000000000"),
    ],
)
def test_plain_csv_times_are_told_apart_by_their_form(tmp_path, first, second):
    path = write(tmp_path, "plain.csv", f"timestamp,value,note\n{second},2,b\n{first},1,a\n")
    samples = load(path)
    assert samples.time_us.tolist() == [1679068247_000_000, 1679068248_000_000]
    assert samples.columns["value"].tolist() == [1.0, 2.0]
    assert "note" not in samples.columns


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.csv", "when,what\n1,2\n", "recording-format"),
        ("a.csv", "time,what\n", "recording-empty"),
        ("a.csv", "", "recording-empty"),
        ("a.gpx", "", "recording-empty"),
        ("a.gpx", "<gpx><trk>", "recording-format"),
        ("a.plt", "1\n2\n3\n4\n5\n6\n1,2\n", "recording-format"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_the_reason(tmp_path, name, text, code):
    with pytest.raises(UsageError, match=code):
        load(write(tmp_path, name, text))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("walks.zip", b"PK\x03\x04\x14\x00walk.gpx", "it is an archive; unpack it"),
        ("walk.kml", b'<?xml version="1.0"?><kml></kml>\n', "it is XML or JSON and no table"),
        ("walk.json", b'[{"time": 1, "lat": 2}]\n', "it is XML or JSON and no table"),
        ("walk.fit", b"\x0e\x10\x99\x08\x00\x00.FIT\xff\xc3\n\x01", "it is no text"),
        ("wide.csv", b",".join(b"c" * 99 for _ in range(40)) + b"\n", "\u2026 and 28 more)"),
        ("way.gpx", GPX.replace("<time>", "<name>").replace("</time>", "</name>").encode(), "none of its 3 points has"),
        ("route.gpx", GPX.replace("trkpt", "rtept").encode(), "none of its 3 points has a time"),
    ],
)
def test_what_is_no_recording_is_named_in_a_few_plain_words(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match="recording-format") as refused:
        load(path)
    assert said in refused.value.message
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 600


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-16", ""), ("utf-16-be", "\ufeff"), ("utf-16-be", ""), ("utf-16-le", ""), ("utf-8-sig", "")],
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_table_of_a_spreadsheet_is_read_in_its_encoding(tmp_path, encoding, mark, end):
    path = tmp_path / "t.csv"
    path.write_bytes((mark + "time\tlat\tlon\n1600000000\t52.5\t13.4\n1600000001\t52.6\t13.5" + end).encode(encoding))
    track = load(path)
    assert track.columns["lat"].tolist() == [52.5, 52.6]
    assert track.unreadable.rows == 0


def test_a_sensors_column_without_a_number_is_left_out_and_said_and_one_with_numbers_stays(tmp_path):
    path = write(tmp_path, "t.csv", "time,lat,accuracy\n1,2,\n2,3,good\n3,4,bad\n")
    recording = Recording(path, every_us=1, origin_us=ORIGIN_US)
    samples = recording.read(ORIGIN_US + 10_000_000)
    assert set(samples.columns) == {"lat"}
    assert samples.note == "column 'accuracy' of 't.csv' is text ('good') and is left out"
    path = write(tmp_path, "u.csv", "time,lat,accuracy\n1,2,7\n2,3,good\n3,4,bad\n")
    track = load(path)
    assert (track.columns["accuracy"].tolist(), track.unreadable.rows) == ([7.0], 2)


def test_one_unreadable_cell_is_one_row_and_never_a_column(tmp_path):
    rows = [f"{1600000000 + second},{second},{second / 2}" for second in range(50)]
    rows[7] = "1600000007,seven,3.5"
    rows[20] = "noon,20,10"
    rows[49] = "1600000049,4"  # the file was cut while it was written
    track = load(write(tmp_path, "t.csv", "\n".join(["time,a,b", *rows])))
    assert len(track.time_us) == 47
    assert track.columns["a"].tolist() == [value for value in range(49) if value not in (7, 20)]
    assert track.unreadable.rows == 3
    assert track.unreadable.first == "line 51: 2 of 3 cells"


def test_a_column_of_notes_costs_no_row(tmp_path):
    track = load(write(tmp_path, "t.csv", "time,a,note\n1,2,home\n2,3,\n3,4,5\n4,5,bus\n"))
    assert set(track.columns) == {"a"}
    assert track.unreadable.rows == 0


def test_a_gpx_that_was_cut_short_is_read_up_to_there(tmp_path):
    track = load(write(tmp_path, "cut.gpx", GPX[: GPX.index('lat="47.3"')]))
    assert track.columns["lat"].tolist() == [47.1, 47.2]
    assert "cut short" in track.unreadable.first


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(
            GPX.replace("<trk>", "<trk><name>Zürich</name>", 1).encode("latin-1"), id="not the encoding it says"
        ),
        pytest.param(
            GPX.replace('<trkpt lat="47.2"', '<name>Zürich</name><trkpt lat="47.2"').encode("latin-1"),
            id="nor further down",
        ),
        pytest.param(GPX.replace("<trk>", "<trk><name>Tom & Jerry&nbsp;</name>", 1).encode(), id="a bare ampersand"),
        pytest.param(b"\n" + GPX.encode(), id="a line before everything"),
        pytest.param(GPX.replace('"1.0"', '"1.0" encoding="UTF-8"', 1).encode("utf-16"), id="UTF-16 that says UTF-8"),
        pytest.param(GPX.replace("<trk>", "<trk><name>a\x00\x0b</name>", 1).encode(), id="characters that XML has not"),
    ],
)
def test_a_gpx_that_is_no_xml_to_the_letter_is_read_to_its_end(tmp_path, written):
    path = tmp_path / "walk.gpx"
    path.write_bytes(written)
    track = load(path)
    assert track.columns["lat"].tolist() == [47.1, 47.2]
    assert track.unreadable.rows == 0


def test_an_entity_across_two_pieces_of_a_file_stays_one(tmp_path):
    for before in range(file_formats.CHUNK_CHARACTERS - 200, file_formats.CHUNK_CHARACTERS, 7):
        name = f"<name>&{'.' * before}&amp;&#233;</name>"
        track = load(write(tmp_path, "walk.gpx", GPX.replace("<trk>", f"<trk>{name}", 1)))
        assert (track.columns["lat"].tolist(), track.unreadable.rows) == ([47.1, 47.2], 0)


@pytest.mark.parametrize("place", ["nan", "147.1", "-91"])
def test_a_gpx_point_that_is_nowhere_is_one_row(tmp_path, place):
    track = load(write(tmp_path, "walk.gpx", GPX.replace('lat="47.1"', f'lat="{place}"')))
    assert track.columns["lat"].tolist() == [47.2]
    assert "is no place" in track.unreadable.first


def test_readings_from_before_the_clock_was_set_are_left_out_and_counted(tmp_path):
    times = ["1970-01-01T00:00:07Z", "1970-01-01T00:00:08Z", "2023-03-17T15:50:47Z", "2023-03-17T15:50:48Z"]
    text = "time,lat,lon\n" + "".join(f"{time},{row},8.5\n" for row, time in enumerate(times))
    track = load(write(tmp_path, "t.csv", text))
    assert track.columns["lat"].tolist() == [2.0, 3.0]
    assert (track.unreadable.rows, "1970-01-01" in track.unreadable.first) == (2, True)


def test_extensions_of_a_gpx_point_add_values_and_never_replace_its_own(tmp_path):
    extension = (
        "<extensions><tp:TrackPointExtension xmlns:tp='x'><tp:speed>4.5</tp:speed><tp:time>12:00</tp:time>"
        "<tp:ele>9</tp:ele><tp:accuracy>7</tp:accuracy></tp:TrackPointExtension></extensions>"
    )
    text = GPX.replace("</time></trkpt>", f"</time>{extension}</trkpt>", 1)
    track = load(write(tmp_path, "walk.gpx", text))
    first = {name: column[0] for name, column in track.columns.items()}
    assert first == {"lat": 47.1, "lon": 8.5, "altitude": 431.5, "speed": 4.5, "accuracy": 7.0}
    assert track.unreadable.rows == 0


def test_a_gpx_point_that_makes_no_sense_is_one_row(tmp_path):
    track = load(write(tmp_path, "walk.gpx", GPX.replace('lat="47.1"', 'lat="north"')))
    assert track.columns["lat"].tolist() == [47.2]
    assert track.unreadable.rows == 1


@pytest.mark.parametrize(
    "text",
    [
        "time,v\n1679068247000000123.0,1\n",
        "time,v\n1.679068247e18,1\n",
        "time (ns),v\n1679068247000000000,1\n",
        "time (ms),v\n1679068247000,1\n",
        "time,v\n2023-03-17T15:50:47.000000123Z,1\n",
        "timestamp,v\n2023-03-17T15:50:47.000000999+00:00,1\n",
    ],
)
def test_times_in_nanoseconds_are_read_in_every_form(tmp_path, text):
    assert load(write(tmp_path, "t.csv", text)).time_us.tolist() == [1679068247_000_000]


def test_a_recording_plays_from_the_origin_and_goes_on_after_a_restart(tmp_path):
    path = write(tmp_path, "t.csv", "time,v\n" + "".join(f"{1600000000 + second},{second}\n" for second in range(100)))
    options = {"every_us": 1_000_000, "origin_us": ORIGIN_US}
    recording = Recording(path, **options)
    first = recording.read(ORIGIN_US + 30_000_000)
    assert first.columns["v"].tolist() == list(range(30))
    again = Recording(path, **options, from_us=int(first.time_us[-1]) + 1)
    rest = again.read(ORIGIN_US + 1_000_000_000)
    assert rest.columns["v"].tolist() == list(range(30, 100))
    assert len(again.read(ORIGIN_US + 2_000_000_000)) == 0


def test_a_slower_rate_keeps_the_first_reading_of_each_period_however_it_is_read(tmp_path):
    path = write(tmp_path, "t.csv", "time,v\n" + "".join(f"{1600000000 + second},{second}\n" for second in range(100)))
    recording = Recording(path, every_us=5_000_000, origin_us=ORIGIN_US)
    values = []
    for until_s in (3, 4, 11, 12, 13, 50, 51, 100):
        values += recording.read(ORIGIN_US + until_s * 1_000_000).columns["v"].tolist()
    assert values == [float(value) for value in range(0, 100, 5)]


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("phone_zurich/Location.csv", 1091, {"lat", "lon", "accuracy", "speed"}),
        ("phone_zurich/Accelerometer.csv", 34_664, {"x", "y", "z"}),
        ("geolife/long/001/Trajectory/20081024234405.plt", 1, {"lat", "lon", "altitude"}),
    ],
)
def test_real_recordings_are_read_whole(outside_recordings, name, rows, columns):
    samples = load(outside_recordings / name)
    assert len(samples.time_us) >= rows
    assert columns <= set(samples.columns)
    assert (np.diff(samples.time_us) >= 0).all()


@pytest.mark.parametrize(
    ("last", "kept", "cut"),
    [
        ("1600000002,47.1,8.51\n", 3, 0),  # ended
        ("1600000002,47.1,8.53", 3, 0),  # as many digits as all before it
        ("1600000002,47.1,8.", 2, 1),
        ("1600000002,47.1,8", 2, 1),
        ("1600000002,47.1,", 2, 1),
        ("1600000002,47.", 2, 1),
        ('1600000002,47.1,"8.5"', 3, 0),
    ],
)
def test_a_last_line_that_may_be_cut_is_one_bad_row(tmp_path, last, kept, cut):
    path = tmp_path / "track.csv"
    path.write_text("time,lat,lon\n1600000000,47.0,8.51\n1600000001,47.05,8.52\n" + last)
    track = load(path)
    assert (len(track.time_us), track.unreadable.rows) == (kept, cut)
    assert track.columns["lon"].min() > 8.4


@pytest.mark.parametrize(("clock", "kept"), [("02:53:15", 2), ("02:53", 1), ("02:53:1", 1), ("02", 1)])
def test_a_last_line_of_a_plt_that_is_cut_is_one_bad_row(tmp_path, clock, kept):
    path = tmp_path / "track.plt"
    path.write_text(
        "\n" * 6
        + "39.98,116.31,0,492,39744.12,2008-10-23,02:53:04\n"
        + f"39.98,116.32,0,492,39744.12,2008-10-23,{clock}"
    )
    track = load(path)
    assert (len(track.time_us), track.unreadable.rows) == (kept, 2 - kept)


def test_prefixes_that_a_gpx_does_not_declare_are_ignored(tmp_path):
    points = "".join(
        f'<trkpt lat="47.{second}" lon="8.5"><time>2024-05-01T10:00:0{second}Z</time><extensions>'
        f"<gpxtpx:speed>{second}.5</gpxtpx:speed></extensions></trkpt>"
        for second in range(3)
    )
    path = tmp_path / "walk.gpx"
    path.write_text(f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{points}</trkseg></trk></gpx>')
    track = load(path)
    assert track.columns["speed"].tolist() == [0.5, 1.5, 2.5]
    assert track.unreadable.rows == 0
    path.write_text(path.read_text()[:-60])
    assert (len(load(path).time_us), load(path).unreadable.rows) == (2, 1)
