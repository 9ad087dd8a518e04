"""Recordings as people have them: GeoLife, GPX, Sensor Logger, phyphox; and when they lose the network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloud_backend.results.rows import ResultRow
from mobile_app.links.outages import parse_outages
from mobile_app.sensors.playback import Recording
from resurge.examples.trips.outages import MINUTE, Outage, outages_of
from resurge.examples.trips.people import DAY, SECOND, WEEK, made_up_people, read_people
from resurge.examples.trips.phone import spans_of
from resurge.examples.trips.play import _write
from shared.errors import UsageError

PLT = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    geolife = tmp_path / "000" / "Trajectory"
    geolife.mkdir(parents=True)
    for day in (23, 24):
        line = f"39.984702,116.318417,0,492,39744.12,2008-10-{day},02:53:04\n39.984683,116.31845,0,492,39744.12,2008-10-{day},02:53:10\n"
        (geolife / f"200810{day}025304.plt").write_text(PLT + line)
    (tmp_path / "ann.gpx").write_text(
        '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
        '<trkpt lat="47.1" lon="8.1"><time>2020-03-04T10:00:00Z</time></trkpt>'
        '<trkpt lat="47.2" lon="8.1"><time>2020-03-04T10:10:00Z</time></trkpt></trkseg></trk></gpx>'
    )
    logger = tmp_path / "bob-2023-03-17"
    logger.mkdir()
    (logger / "Location.csv").write_text(
        "time,seconds_elapsed,horizontalAccuracy,speed,bearing,altitude,longitude,latitude\n"
        "1679068248793000000,1.594,24.3,0,0,586.5,8.51,47.40\n1679068249793000000,2.594,24.3,0,0,586.5,8.52,47.41\n"
    )
    (logger / "Accelerometer.csv").write_text(
        "time,seconds_elapsed,z,y,x\n"
        + "".join(f"{1679068248793000000 + n * 20_000_000},0,0.1,0.2,{n}\n" for n in range(20))
    )
    phyphox = tmp_path / "eve"
    phyphox.mkdir()
    (phyphox / "Location.csv").write_text(
        '"Time (s)","Latitude (°)","Longitude (°)","Height (m)","Velocity (m/s)","Direction (°)","Horizontal Accuracy (m)","Vertical Accuracy (m)"\n'
        "0.5,50.1,6.1,200,1.0,90,5,5\n1.5,50.2,6.1,200,1.0,90,5,5\n"
    )
    return tmp_path


@pytest.mark.covers("SO-36")
def test_every_format_becomes_a_person(recordings):
    people = {person.name: person for person in read_people(recordings)}
    assert sorted(people) == ["000", "ann", "bob-2023-03-17", "eve"]
    assert len(people["000"].sensors["gps"]["time"]) == 4, "both trajectories"
    assert people["eve"].sensors["gps"]["accuracy"].tolist() == [5.0, 5.0]
    bob = people["bob-2023-03-17"].sensors
    assert bob["gps"]["lat"].tolist() == [47.40, 47.41]
    assert len(bob["accelerometer"]["time"]) == 5, "fifty a second thinned to ten"


def test_a_sensor_that_began_later_begins_with_the_first(tmp_path):
    folder = tmp_path / "bob"
    folder.mkdir()
    (folder / "Location.csv").write_text("time,latitude,longitude\n1679068250000000000,47.4,8.5\n")
    (folder / "Accelerometer.csv").write_text("time,z,y,x\n1679068248000000000,1,2,3\n")
    [person] = read_people(tmp_path)
    gps = person.sensors["gps"]
    assert np.diff(gps["time"]).tolist() == [2 * SECOND]
    assert np.isnan(gps["lat"][0])
    assert gps["time"][0] == person.sensors["accelerometer"]["time"][0]


def test_a_gps_denser_than_the_program_reads_it_is_thinned_as_a_phone_would(tmp_path):
    folder = tmp_path / "bob"
    folder.mkdir()
    rows = "".join(f"{1679068248000000000 + n * 620_000_000},{47 + n / 1e4},8.5\n" for n in range(50))
    (folder / "Location.csv").write_text("time,latitude,longitude\n" + rows)
    [person] = read_people(tmp_path)
    times = person.sensors["gps"]["time"]
    assert len(times) == 31
    _write(tmp_path / "gps.csv", person.sensors["gps"])
    played = Recording(tmp_path / "gps.csv", every_us=SECOND, origin_us=person.start_us).read(person.end_us + 1)
    assert played.time_us.tolist() == times.tolist(), "a phone that plays it reads all of it"


def test_people_meet_in_one_week_at_the_times_of_day_they_had(recordings):
    people = {person.name: person for person in read_people(recordings)}
    starts = {name: person.start_us for name, person in people.items()}
    assert max(starts.values()) - min(starts.values()) < WEEK
    assert starts["ann"] % DAY == 10 * 3600 * 1_000_000
    assert starts["000"] % DAY == (2 * 3600 + 53 * 60 + 4) * 1_000_000
    assert starts["eve"] % DAY == DAY // 2
    gaps = np.diff(people["000"].sensors["gps"]["time"])
    assert gaps.max() > 0.9 * DAY, "one person's own days stay apart"


def test_a_directory_without_recordings_says_what_was_expected(tmp_path):
    with pytest.raises(UsageError, match="example-recording"):
        read_people(tmp_path)
    with pytest.raises(UsageError, match="example-recording"):
        read_people(tmp_path / "nowhere")


def test_a_file_that_cannot_be_read_is_left_out_and_said_with_the_rows_of_others(recordings):
    whole = {person.name: person for person in read_people(recordings)}
    (recordings / "empty.gpx").write_text("")
    broken = recordings / "cut" / "Location.csv"
    broken.parent.mkdir()
    broken.write_text("time,latitude,longitude\n1600000000,47.0,8.51\n1600000001,47.05,8.52\n1600000002,47.1,8.")
    said: list[str] = []
    people = {person.name: person for person in read_people(recordings, said.append)}
    assert people.keys() == whole.keys() | {"cut"}
    assert len(people["cut"].sensors["gps"]["time"]) == 2
    assert sum("left out: recording 'empty.gpx'" in line for line in said) == 1
    assert any("Location.csv: 1 unreadable (line 4: the file ends in the middle of this line)" in line for line in said)
    assert said[-1] == "1 row in all cannot be read and is left out"
    with pytest.raises(UsageError, match="example-recording"):
        read_people(recordings / "empty.gpx")


def test_made_up_people_are_the_same_every_time():
    first, second = (made_up_people(2, 0.2) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        for sensor, columns in one.sensors.items():
            assert all(np.array_equal(columns[name], other.sensors[sensor][name]) for name in columns)


def trip(start_min: float, minutes: float) -> ResultRow:
    start = round(start_min * MINUTE)
    return ResultRow("my_trips", "ann", ("ann",), start, start + 1, 0, False, True, {"minutes": minutes})


def test_outages_are_drawn_onto_the_middle_of_trips():
    found = outages_of("* mid-trip 20\n", "ann", [trip(100, 40), trip(300, 5)])
    assert found == [Outage(110 * MINUTE, 130 * MINUTE)]
    assert outages_of("* mid-trip 20\n", "ann", [trip(100, 4), trip(300, 6)]) == [Outage(293 * MINUTE, 313 * MINUTE)]
    assert outages_of("* mid-trip 20\n", "ann", []) == []


def test_outages_of_one_person_at_a_time_and_overlaps_joined():
    text = (
        "# who when minutes\nann 1970-01-01T01:00:00 20\nann 1970-01-01T01:10:00+00:00 20\nbob 1970-01-01T05:00:00 5\n"
    )
    assert outages_of(text, "ann", []) == [Outage(60 * MINUTE, 90 * MINUTE)]


def test_a_line_that_is_no_outage_is_named():
    for line in ("ann", "ann yesterday 20", "ann mid-trip x"):
        with pytest.raises(UsageError, match="example-outages"):
            outages_of(line, "ann", [])


def test_outages_of_a_phone_that_starts_late_never_overlap():
    story = {"base_us": 0, "outages": [[0, 60 * MINUTE], [60 * MINUTE, 80 * MINUTE], [90 * MINUTE, 91 * MINUTE]]}
    text = spans_of(story, began_s=-1.0, speed=1800.0)
    parse_outages(text)
    assert text.count("+") == 3
    assert spans_of(story, began_s=-4.0, speed=1800.0) == ""
