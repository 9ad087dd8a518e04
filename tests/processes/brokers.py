"""An MQTT broker (mosquitto) as a process on loopback, which tests kill and start again, and clients of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from resurge.up.process_fleet import free_address
from tests.patience import wait_until
from tests.processes.node_processes import listens
from tests.skips import skip_download


def mosquitto() -> str:
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if found is None:
        skip_download("mosquitto")
        raise AssertionError
    return found


class Broker:
    """On the same port after every start; what it holds for lasting sessions outlives a SIGTERM."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.address = free_address()
        self.port = int(self.address.rpartition(":")[2])
        self._file = directory / "mosquitto.conf"
        self._file.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {directory}/\n"
            + ("user root\n" if os.geteuid() == 0 else "")  # else it becomes somebody who may not write there
        )
        self._command = [mosquitto(), "-c", str(self._file)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Broker:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        wait_until(lambda: listens(self.address), "the broker")
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def client(self, topic: str = "", **options: object) -> Client:
        return Client(self.port, topic, **options)

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


class Client:
    """Publishes, and keeps what comes under a topic filter."""

    def __init__(self, port: int, topic: str) -> None:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages: list[tuple[str, bytes]] = []
        self.subscribed = not topic
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1) if topic else None
        self._client.on_subscribe = lambda *_: setattr(self, "subscribed", True)
        self._client.on_message = lambda _client, _data, message: self.messages.append((message.topic, message.payload))
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        wait_until(lambda: self.subscribed, "the subscription")

    def publish(self, topic: str, *payloads: str | float) -> None:
        wait_until(self._client.is_connected, "the connection to the broker")
        for sent in [self._client.publish(topic, payload, qos=1) for payload in payloads]:
            wait_until(sent.is_published, "the broker to acknowledge")

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
