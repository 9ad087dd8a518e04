"""Three real brokers on loopback, each killed, frozen and started again by its process id.

They are what Apache Kafka ships (KRaft, no ZooKeeper), fetched once (`_downloads`). For benches and for the
tests. Each is broker and controller, so one may go and the others go on; with two gone nothing is decided.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from resurge.bench import _downloads
from resurge.bench._downloads import JAVA
from resurge.up.free_ports import free_ports

VERSION = "4.1.1"
MODULE = ("org.apache.kafka", "kafka_2.13", VERSION)
CLUSTER_ID = "cmVzdXJnZS1icm9rZXJzLQ"  # any 16 bytes
START_S = 240.0  # on a machine that does much else; alone it takes seconds

SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
# A killed broker is noticed in seconds: tests wait for it.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=3000
controller.quorum.election.timeout.ms=700
controller.quorum.fetch.timeout.ms=1500
num.io.threads=2
num.network.threads=2
log.cleaner.dedupe.buffer.size=8388608
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
 username="{user}" password="{password}" user_{user}="{password}";
"""
USER, PASSWORD = "gateway", "of-the-tests"  # at the port that asks for them


def jars() -> Path:
    return _downloads.jars(f"kafka-{VERSION}", MODULE)


class Broker:
    def __init__(self, folder: Path, node: int, port: int) -> None:
        self.folder, self.node, self.port = folder, node, port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [*JAVA, "-Xmx384m", "-cp", f"{jars()}/*", "kafka.Kafka", str(self.folder / "server.properties")],
                stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, "LOG_DIR": str(self.folder)},
            )  # fmt: skip

    def is_listening(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Started by `with`; `address` is what a location names."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        voters = ",".join(f"{node}@127.0.0.1:{ports[node - 1]}" for node in (1, 2, 3))
        self.brokers = []
        for node in (1, 2, 3):
            home = folder / f"broker-{node}"
            home.mkdir(parents=True)
            port, sasl = ports[node + 2], ports[node + 5]
            text = SETTINGS.format(
                node=node, voters=voters, port=port, controller=ports[node - 1], sasl=sasl, data=home / "data",
                user=USER, password=PASSWORD,
            )  # fmt: skip
            (home / "server.properties").write_text(text)
            self.brokers.append(Broker(home, node, port))
        self.sasl_address = ",".join(f"127.0.0.1:{port}" for port in ports[6:])
        self.address = ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    def __enter__(self) -> Cluster:
        formats = [
            subprocess.Popen(
                [*JAVA, "-cp", f"{jars()}/*", "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c",
                 str(broker.folder / "server.properties")],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for broker in self.brokers
        ]  # fmt: skip
        assert {each.wait() for each in formats} == {0}, "a broker's folder could not be formatted"
        self.start_all()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            if broker.is_running:
                broker.kill()

    def start_all(self) -> None:
        for broker in self.brokers:
            if not broker.is_running:
                broker.start()
        _until(self._listen, "the brokers listen")
        _until(self.is_whole, "every copy has caught up")

    def _listen(self) -> bool:
        for broker in self.brokers:
            if not broker.is_running:
                last = (broker.folder / "output.txt").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"broker {broker.node} ended while it started: {last}")
        return all(broker.is_listening() for broker in self.brokers)

    def is_whole(self) -> bool:
        """Whether all brokers are there and every copy of every partition is in step."""
        found = AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=10)
        parts = [part for topic in found.topics.values() for part in topic.partitions.values()]
        return len(found.brokers) == len(self.brokers) and all(len(each.isrs) == len(each.replicas) for each in parts)

    def broker(self, node: int) -> Broker:
        return self.brokers[node - 1]


def _until(ask: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            if ask():
                return
        except KafkaException:
            pass  # nobody answers yet
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {START_S:.0f} s")
        time.sleep(0.05)
