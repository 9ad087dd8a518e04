"""What devices have signed, computed anew from a log that the real sender filled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.log.erasure import ErasureCounts, erase, prepare
from cloud_backend.log.format import Record
from cloud_backend.log.log import Log
from cloud_backend.log.verify import Verification, verify
from shared.sync.signed_runs import BATCHES_PER_SIGNATURE
from shared.wire.frame import FrameType, decode_one, encode
from tests.cloud_backend.log.crash_images import RecordingDisk
from tests.shared.sync.builders import Node, pair

COLUMNS = b"columns" * 9


@pytest.fixture(scope="module")
def node() -> Node:
    """Sent three runs and a bit."""
    node = pair(capacity_bytes=1 << 20)
    for _ in range(3 * BATCHES_PER_SIGNATURE + 5):
        node.append(payload=COLUMNS)
        node.talk()
    return node


def written(frames: list[bytes], **options) -> RecordingDisk:
    disk = RecordingDisk()
    log = Log.open(disk, **options)
    for frame in frames:
        log.append([Record(1, frame)])
        log.sync()
    log.close()
    return disk


def checked(node: Node, disk: RecordingDisk) -> Verification:
    def is_signed(device, message, signature):
        known = node.gateway.enrolments.get(device)
        return None if known is None else node.gateway.keys.verify(known.public_key, message, signature)

    return verify(disk, is_signed=is_signed)


def test_every_run_that_was_signed_is_found_signed(node):
    signed = checked(node, written([record.frame for record in node.gateway.log])).signed
    assert (signed.runs, signed.batches) == (3, 3 * BATCHES_PER_SIGNATURE)
    assert (signed.unsigned, signed.unchecked, signed.wrong) == (5, 0, [])


def test_a_batch_that_the_device_did_not_send_is_found_out(node):
    """Whoever owns the gateway can write a log whose checksums and chain all fit; not one whose signatures do."""
    frames = [record.frame for record in node.gateway.log]
    at = [place for place, data in enumerate(frames) if decode_one(data)[0].type is FrameType.DATA][70]
    forged = replace(decode_one(frames[at])[0], payload=decode_one(frames[at])[0].payload[:-1] + b"?")
    frames[at] = encode(forged)
    found = checked(node, written(frames))
    assert (found.duplicates, found.gaps) == (0, 0)
    assert found.signed.runs == 2
    (text,) = found.signed.wrong
    assert "is over other batches than these" in text


def test_a_signature_by_somebody_else_is_found_out(node):
    frames = [record.frame for record in node.gateway.log]
    at = next(place for place, data in enumerate(frames) if decode_one(data)[0].type is FrameType.CHAIN)
    chain = decode_one(frames[at])[0]
    frames[at] = encode(replace(chain, payload=chain.payload[:32] + bytes(64)))
    (text,) = checked(node, written(frames)).signed.wrong
    assert "is not by it" in text


def test_runs_that_were_trimmed_and_devices_that_are_not_known_are_not_judged(node):
    frames = [record.frame for record in node.gateway.log]
    disk = written(frames, segment_bytes=4000)
    log = Log.open(disk, segment_bytes=4000)
    assert log.trim(log.durable_end // 2)
    log.close()
    signed = checked(node, disk).signed
    assert signed.unchecked >= 1
    assert not signed.wrong
    nobody = verify(written(frames), is_signed=lambda *_: None).signed
    assert (nobody.runs, nobody.unchecked, nobody.wrong) == (0, 3, [])


def test_what_was_erased_is_still_under_its_signature(node):
    """The digest stays in the payload's place, and the signature is over digests."""
    disk = written([record.frame for record in node.gateway.log])
    log = Log.open(disk)
    done = ErasureCounts()
    for base in prepare(log):
        erase(log, base, node.device, through_incarnation=1, done=done)
    log.close()
    assert done.batches == 3 * BATCHES_PER_SIGNATURE + 5
    signed = checked(node, disk).signed
    assert (signed.runs, signed.wrong) == (3, [])
