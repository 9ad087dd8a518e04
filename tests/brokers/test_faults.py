"""Brokers and gateways are killed and paused while phones send. After each: receipts are a subset of the log, every
number is there once, the chain verifies, and what is replayed is always the same."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cloud_backend.log.kafka.location import parse
from cloud_backend.log.kafka.verify import verify
from tests.brokers.cluster import Broker, Cluster
from tests.brokers.uploads import Upload, gateway_on
from tests.claims import Claim
from tests.patience import let_pass, wait_until

pytestmark = pytest.mark.brokers

SOAK = pytest.mark.soak
SESSION_S = 4.0  # longer than brokers wait for one of them that does not answer


def leader(cluster: Cluster, location: str, partition: int = 0) -> Broker:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    topic = parse(location).log_topic
    found = wait_until(
        lambda: (
            admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader > 0
            and admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader
        )
    )
    return cluster.broker(found)


@pytest.mark.covers("SO-21")
@pytest.mark.parametrize(("kills", "elements"), [(1, 500), pytest.param(20, 20_000, marks=SOAK)])
def test_the_leader_of_a_partition_is_killed_while_phones_send(
    tmp_path: Path, cluster: Cluster, location: Callable[..., str], kills: int, elements: int, claim: Claim
) -> None:
    where = location(2)
    with gateway_on(tmp_path / "home", where) as gateway:
        with Upload(gateway, phones=4, elements=elements) as upload:
            for kill in range(kills):
                upload.reach((kill + 0.5) / (kills + 1))
                broker = leader(cluster, where, kill % 2)
                at = upload.receipts
                broker.kill()
                upload.reach(min(1.0, at / elements / 4 + 0.1))  # it goes on with the two that are left
                broker.start()
                wait_until(broker.is_listening, "the broker is back")
        assert gateway.stop() == 0
    claim(f"{kills} leaders killed, {len(upload.statuses)} refused, {upload.check(where)}")


@pytest.mark.parametrize(("rounds", "elements"), [(1, 600), pytest.param(10, 10_000, marks=SOAK)])
def test_with_two_brokers_gone_there_is_no_receipt_and_with_all_gone_nothing_is_lost(
    tmp_path: Path, cluster: Cluster, location: Callable[..., str], rounds: int, elements: int, claim: Claim
) -> None:
    where = location(2)
    with gateway_on(tmp_path / "home", where) as gateway:
        with Upload(gateway, phones=3, elements=elements) as upload:
            for number in range(rounds):
                upload.reach((number + 0.3) / (rounds + 1))
                for broker in cluster.brokers[:2]:
                    broker.kill()
                refused = len(upload.statuses)
                wait_until(lambda before=refused: len(upload.statuses) > before + 3, "phones are refused")
                at = upload.receipts
                assert set(upload.statuses[refused:]) <= {503}
                status, answer = gateway.get("/readyz")
                assert (status, json.loads(answer)["code"]) == (503, "kafka-unreachable")
                assert gateway.get("/healthz")[0] == 200
                wait_until(lambda before=refused: len(upload.statuses) > before + 8, "they still are")
                assert upload.receipts == at, "a receipt left while one broker alone was there"
                cluster.brokers[2].kill()
                cluster.start_all()
                upload.reach((number + 0.9) / (rounds + 1))
        assert gateway.get("/readyz")[0] == 200
        assert gateway.stop() == 0
    claim(f"{rounds} x 3 brokers killed, {len(upload.statuses)} exchanges refused with 503, {upload.check(where)}")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_gateway_dies_around_a_commit(
    tmp_path: Path, cluster: Cluster, location: Callable[..., str], moment: str, claim: Claim
) -> None:
    where = location(2)
    gateway = gateway_on(tmp_path / "home", where)
    gateway.entrance = ("tests.brokers.killed_gateway", "7", moment)
    deaths, wanted = 0, 1
    with gateway, Upload(gateway, phones=3, elements=300) as upload:
        for _ in range(wanted):
            wait_until(lambda: gateway.process.poll() is not None, "the gateway killed itself")
            assert gateway.process.returncode == -signal.SIGKILL
            gateway.process.stdout.close()
            deaths += 1
            if deaths == wanted:
                gateway.entrance = ("cloud_backend.gateway",)
            gateway.start()
        upload.finish()
        assert gateway.stop() == 0
    assert upload.cut >= deaths
    claim(f"{deaths} gateways killed {moment} a commit, {upload.check(where)}")


def test_an_owner_that_was_paused_is_fenced_and_gives_no_receipt(
    tmp_path: Path, cluster: Cluster, location: Callable[..., str], claim: Claim
) -> None:
    where = location(2)
    with gateway_on(tmp_path / "home", where) as first:
        upload = Upload(first, phones=2, elements=200)
        for phone in upload.phones:
            phone.next = 0
            phone.send(20, bytes(200))
        first.process.send_signal(signal.SIGSTOP)
        let_pass(SESSION_S)
        shutil.copytree(tmp_path / "home", tmp_path / "other", ignore=shutil.ignore_patterns("lock", "gateway.json"))
        with gateway_on(tmp_path / "other", where) as second:
            paused = [phone.post for phone in upload.phones]
            upload.gateway = second
            for phone, post in zip(upload.phones, paused, strict=True):
                post.close()
                phone.post = type(post)(second)
                second.posts.append(phone.post)
                assert phone.hello()[0] == 200
                assert phone.send(20, bytes(200)) == 40
            first.process.send_signal(signal.SIGCONT)
            late = upload.phones[0]
            late.post = paused[0]
            receipts = 0
            try:
                if late.hello()[0] == 200:
                    status, _ = late.exchange(late.declare(), late.batch(20, 40, b"of the one that was paused"))
                    receipts += status == 200
            except (OSError, http.client.HTTPException):
                pass  # it had ended by then
            assert receipts == 0
            assert first.process.wait(60) == 3
            late.post = type(paused[0])(second)
            second.posts.append(late.post)
            late.hello()
            with upload:
                pass
            assert second.stop() == 0
    assert verify(where).duplicates == 0
    claim(f"1 owner paused and fenced, {receipts} receipts of it, {upload.check(where)}")
