"""A gateway's copy of the log in Kafka: what the dashboard, contracts' reports and deletion read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloud_backend.coordinator.backup import Places, create
from cloud_backend.dashboard import upkeep as upkeep_module
from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.log.format import Record
from cloud_backend.log.kafka import copy as copy_module
from cloud_backend.log.kafka.copy import DIRECTORY, PLACE, LogCopy
from cloud_backend.log.kafka.log import KafkaLog
from cloud_backend.log.partitions import open_log, partition_of
from cloud_backend.log.verify import verify
from shared.errors import UsageError
from shared.identity import EdgeKey, device_id
from shared.spool.disk import PosixDisk
from shared.wire.frame import decode_one
from tests.claims import Claim
from tests.cloud_backend.dashboard.house import EDGE_HEX, House
from tests.cloud_backend.log.builders import PHONE, data, tombstone
from tests.patience import wait_until

pytestmark = pytest.mark.brokers

PHONES = [EdgeKey(device_id(b"phone %d" % number), 1, PHONE.edge) for number in range(8)]


class Written:
    """A log of four partitions that eight phones write to."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.log = KafkaLog.open(location)
        self.next = dict.fromkeys(PHONES, 0)

    def go_on(self, times: int = 1) -> None:
        for _ in range(times):
            records = []
            for number, phone in enumerate(PHONES):
                lo = self.next[phone]
                make = tombstone if lo % 30 == 20 else data
                records.append(Record(1_000_000 + 10 * lo + number, make(phone, lo, lo + 10).frame))
                self.next[phone] = lo + 10
            self.log.append(records)
            self.log.commit(self.log.take())

    def copied(self, copy: LogCopy) -> None:
        """All of it, in order, each number once, and the chain holds."""
        wait_until(lambda: copy.follow() and all(copy.log.high_water(each) == at for each, at in self.next.items()))
        found = verify(PosixDisk(copy._directory / "log"))
        assert (found.duplicates, found.gaps) == (0, 0)
        assert copy.log.totals_of(PHONES[0].device, 1) == self.log._of(PHONES[0].device)._index.totals_of(
            PHONES[0].device, 1
        )


@pytest.fixture
def written(location: Callable[..., str]) -> Iterator[Written]:
    world = Written(location(4))
    yield world
    world.log.close()


def test_a_copy_holds_every_record_once_whatever_it_was_cut_off_at(
    tmp_path: Path, written: Written, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_module, "MARK_BYTES", 1)
    written.go_on(3)
    copy = LogCopy(tmp_path, written.location)
    written.copied(copy)
    place = tmp_path / DIRECTORY / PLACE
    before = place.read_bytes()
    written.go_on(3)
    written.copied(copy)
    first = [bytes(record.frame) for _, record in copy.log.read(copy.log.start, copy.log.durable_end)]
    copy.close()
    place.write_bytes(before)  # killed after the records and before their place
    again = LogCopy(tmp_path, written.location, segment_bytes=1)  # each group is in one of its own
    written.go_on()
    written.copied(again)
    # Kafka forgets what no job needs, and so does the copy; one that was lost is made again from what is left.
    reader = open_log(written.location)
    stable = {each: start + (reader.ends()[each] - start) // 2 for each, start in reader.starts().items()}
    end, start = again.log.durable_end, again.log.start
    again.trim(reader.ends())
    assert start < again.log.start <= end
    written.copied(again)
    written.log.trim(stable)
    again.close()
    place.write_text(json.dumps(json.loads(place.read_text()) | {"format": 2}))  # of a version that comes later
    anew = LogCopy(tmp_path, written.location)
    written.go_on()
    written.copied(anew)
    assert anew.log.start > end
    kept = sum(1 for _ in anew.log.read(anew.log.start, anew.log.durable_end))
    assert 0 < kept < len(first) + 2 * len(PHONES)
    anew.close()
    claim(f"{len(first)} records copied, 1 kill between records and place, {kept} copied again after a trim")


def test_a_copy_that_was_away_for_too_long_goes_on_from_what_is_kept(tmp_path: Path, written: Written) -> None:
    written.go_on(2)
    copy = LogCopy(tmp_path, written.location)
    written.copied(copy)
    end = copy.log.durable_end
    written.go_on(2)
    written.log.trim(open_log(written.location).ends())
    written.go_on()
    written.copied(copy)
    assert copy.log.start > end  # nobody who remembers an offset is shown another batch
    copy.close()


def test_with_its_log_in_kafka_a_gateway_has_a_dashboard_and_deletes_what_a_device_sent(
    tmp_path: Path, location: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = location(4)
    house = House(tmp_path / "house", log=where)
    sources = house.app.state.sources
    copy = house.gateway.copy
    wait_until(lambda: copy.follow() and len(copy.log.marks()) == 2, "both phones are in the copy")
    admin = house.browser("admin")
    for page in ("/", "/devices", "/streams", "/streams/gps", "/attention", "/jobs", "/contracts"):
        assert admin.get(page).status_code == 200, page
    (stream,) = admin.get("/v1/api/streams").json()["streams"]
    assert (stream["edge"], stream["elements"], stream["ledgered"]) == (EDGE_HEX, 16, 4)
    newest = admin.get(f"/v1/api/streams/{EDGE_HEX}/batches").json()["batches"]
    assert {each["device"] for each in newest} == {each.hex() for each in house.phones}
    sources.contracts.follow(sources.told_us())
    assert [each.sink for each in sources.contracts.now(house.now_us)] == ["gps"]

    monkeypatch.setattr(upkeep_module, "LATE_US", 0)
    device = house.phones[0]
    deletion = house.gateway.roster.delete_data(device, house.now_us)
    upkeep = Upkeep(sources, copy.run_when_idle)
    asyncio.run(upkeep.delete())  # carried out in the copy
    asyncio.run(upkeep.delete())  # Kafka is asked
    (waiting,) = house.gateway.roster.deletions()
    partition = partition_of(device, 4)
    assert waiting.done_us is None
    assert waiting.report["elements"] == 6
    assert waiting.report["held"] == f"partition {partition} of the log in Kafka, until job 'main' needs it no more"
    erased = [
        decode_one(record.frame)[0].source
        for _, record in copy.log.read(copy.log.start, copy.log.durable_end, erased=True)
        if len(record.frame) > 200
    ]
    assert device not in erased
    house.gateway.log.trim(open_log(where).ends())
    asyncio.run(upkeep.delete())
    (done,) = house.gateway.roster.deletions()
    assert done.done_us is not None
    assert (done.asked_us, done.report["elements"], "held" in done.report) == (deletion.asked_us, 6, False)
    with pytest.raises(UsageError) as error:
        create(Places.of_home(house.settings.home), tmp_path / "backup.tar", now_us=1)
    assert error.value.code == "backup-kafka"
    copy.close()
    house.close()
