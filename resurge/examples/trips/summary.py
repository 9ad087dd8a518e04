"""What `resurge example` says to a person: the outcome of a run, of a move and of a loss, in lines that can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from cloud_backend.results.rows import ResultRow

SECOND = 1_000_000
TRIPS_SHOWN = 10
VARIANTS = {
    "codec alone": "batches and codec alone",
    "modes in the cloud": "filter, modes told in the cloud",
    "modes on the phone": "filter, modes told on the phone",
}


def of_run(found: Mapping[str, Any], report: Sequence[ResultRow], zone: str | None = None) -> Iterator[str]:
    """`zone` is the one that the person named; without it trips are told by the sun, and days are those of UTC."""
    trips = sorted((row for row in report if row.sink == "my_trips"), key=lambda row: (row.device, row.window_start_us))
    if trips:
        yield from _trips([row for row in trips if row.device == trips[0].device], trips[0].device, zone)
        yield from _exposure([row for row in report if row.sink == "my_exposure" and row.device == trips[0].device])
        yield ""
    others = ", ".join(f"{count:,} {sink}" for sink, count in sorted(found["results"].items()) if sink != "my_trips")
    yield f"people          {found['people']}, with {found['trips']:,} trips; {others or 'nothing else'}"
    yield f"on their phones {found['results_on_phones']:,} results that came back"
    yield (
        f"readings        {found['produced']:,} produced = {found['delivered']:,} delivered + "
        f"{found['spooled']:,} spooled + {found['ledgered']:,} given up; {found['duplicates']:,} counted twice"
    )
    yield (
        f"outages         {found['outages']:,} ({found['outage_minutes']:,} minutes of the story), of which "
        f"{found['outages_felt']:,} refused a phone something"
    )
    yield f"GPS             read {found['gps_read']:,} times, {found['gps_unthinned']:,} if never spared"
    yield f"sent            {found['bytes_sent']:,} bytes"
    yield f"played          {found['speed']:,.0f} times as fast, in {found['seconds']:.0f} s with starting and ending"
    same = "the same as" if found["digest"] == found["failure_free_digest"] else "NOT that"
    yield f"report          {found['digest'][:16]}, {same} without failures, to the bit"


def _trips(trips: Sequence[ResultRow], whose: str, zone: str | None) -> Iterator[str]:
    yield f"{'trips of ' + whose:<18} {'mode':<6} {'km':>7} {'minutes':>8} {'CO2e g':>8} {'min. near sites':>16}"
    for row in trips[:TRIPS_SHOWN]:
        value = row.values
        if value["unrecorded_km"]:
            yield f"{'':<18} {value['unrecorded_km']:.1f} km between trips, not recorded"
        if not value["trips"]:
            continue
        began_us = int(value["began_us"])
        began = by_sun(began_us, float(value["from_lon"])) if zone is None else in_zone(began_us, zone)
        yield (
            f"{began:%a %d %b %H:%M}   {value['mode']!s:<6} {value['km']:>7.1f} {value['minutes']:>8.0f} "
            f"{value['co2e_g']:>8.0f} {float(value['near_sites_s']) / 60:>16.1f}"
        )
    if len(trips) > TRIPS_SHOWN:
        yield f"... and {len(trips) - TRIPS_SHOWN} more"
    if zone is None:
        yield (
            "days and times of trips: when and where each began, by the sun (a whole hour every 15 degrees); "
            "my_days: UTC"
        )
    else:
        yield f"days and times of trips: when each began, in {zone}; my_days: {zone}"


def _exposure(days: Sequence[ResultRow]) -> Iterator[str]:
    """How long one was indoors and outdoors on all days; nothing where no recording can tell."""
    minutes = {
        name: sum(float(row.values[name]) for row in days) / 60
        for name in ("indoors_s", "outdoors_s", "near_sites_indoors_s", "near_sites_outdoors_s")
    }
    if days:
        yield (
            f"minutes         {minutes['indoors_s']:,.0f} indoors ({minutes['near_sites_indoors_s']:.1f} near sites), "
            f"{minutes['outdoors_s']:,.0f} outdoors ({minutes['near_sites_outdoors_s']:.1f} near sites)"
        )


def in_zone(time_us: int, zone: str) -> datetime:
    return datetime.fromtimestamp(time_us / SECOND, ZoneInfo(zone))


def by_sun(time_us: int, lon: float) -> datetime:
    """The time by the sun, in whole hours: a recording says where it was, and nothing of borders and summer time."""
    return datetime.fromtimestamp(time_us / SECOND, timezone(timedelta(hours=round(lon / 15.0))))


def of_move(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'':<34} {'bytes sent':>12} {'below JSON':>11} {'radio J':>9} {'sensors J':>10} {'CPU J':>7}   (modelled)"
    yield f"{'every fix as JSON text':<34} {found['raw_json_bytes']:>12,}"
    for name, title in VARIANTS.items():
        one = found[name]
        joules = one["modelled_joules"]
        yield (
            f"{title:<34} {one['bytes']:>12,} {one['saved_percent']:>9.1f} % {joules['radio']:>9,.0f} "
            f"{joules['sensors']:>10,.0f} {joules['cpu']:>7,.1f}"
        )
    yield f"answers are {'the same, to the bit' if found['same_answer'] else 'NOT the same'}, wherever modes are told"


def of_recovery(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"lost            {found['failed']}, with the trips of {', '.join(found['people_in_it']) or 'nobody'}"
    yield f"rolled back (R) {', '.join(found['R'])}; full rollback: {found['full_R']}"
    yield f"replayed (E)    {', '.join(f'{edge} from epoch {epoch}' for edge, epoch in found['E'].items())}"
    share = "" if found["share_of_full"] is None else f", {100 * found['share_of_full']:.0f} %"
    yield f"bytes           {found['bytes']:,} of {found['full_bytes']:,} under full rollback{share}"
    others = ", ".join(f"{name} got {count}" for name, count in found["others_told_meanwhile"].items())
    behind = found["range_was_behind_by"]
    yield f"meanwhile       {others or 'nobody got'} results; the range was up to {behind} epochs behind"
    same = "the same as" if found["digest"] == found["failure_free_digest"] else "NOT that"
    yield f"report          {found['digest'][:16]}, {same} without failures, to the bit"
