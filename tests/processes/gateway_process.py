"""A real gateway process for tests: started, killed, started again on the same home."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cloud_backend.coordinator.roster import Roster
from cloud_backend.database import in_home
from cloud_backend.gateway.ingest import MEDIA_TYPE
from tests.cloud_backend.gateway.phone_client import PhoneClient
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]


class GatewayProcess:
    """Start with `start`; `kill` is SIGKILL. After a restart the port is the same."""

    def __init__(self, home: Path, *options: str, files: int | None = None) -> None:
        self.home = home
        self.options = options
        self.entrance: tuple[str, ...] = ("cloud_backend.gateway",)  # the module that is run, and arguments of its own
        self.files = files  # how many files it may open
        self.run_by: list[str] = []  # a command that runs it where it lives
        self.host, self.port = "127.0.0.1", 0
        self.process: subprocess.Popen[str] | None = None
        self.key = b""
        self.posts: list[PersistentPost] = []

    def start(self) -> GatewayProcess:
        command = [sys.executable, "-m", *self.entrance, "--home", str(self.home), "--port", str(self.port)]
        if self.files is not None:
            command = ["sh", "-c", f'ulimit -n {self.files} && exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            [*self.run_by, *command, *self.options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.process.stdout.close()
        assert line, "the gateway ended before it listened"
        address = json.loads((self.home / "gateway.json").read_text())
        self.port, self.key = address["port"], bytes.fromhex(address["key"])
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        for post in self.posts:
            post.close()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return status

    def __enter__(self) -> GatewayProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        for post in self.posts:
            post.close()
        if self.process is not None and self.process.poll() is None:
            self.kill()
        elif self.process is not None:
            self.process.stdout.close()

    def post(self, path: str, body: bytes, content_type: str = MEDIA_TYPE.decode()) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("POST", path, body, {"content-type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def phone(self, name: str = "phone", *, private: bytes | None = None) -> PhoneClient:
        """A paired phone with an open session and one connection that is opened again when it broke."""
        self.posts.append(PersistentPost(self))
        phone = PhoneClient(self.key, self.posts[-1], private=private, name=name)
        roster = Roster(in_home(self.home, "roster.sqlite"))
        code = roster.new_code(time.time_ns() // 1000)
        roster.close()
        status, answer = self.post("/v1/enrol", phone.enrolment(code), "application/json")
        assert status == 200, answer
        phone.enrolled(json.loads(answer)["incarnation"])
        wait_until(lambda: greeted(phone), "a session")
        return phone


def greeted(phone: PhoneClient) -> bool:
    """Whether the gateway opened a session. A partition may be between two owners: then a phone is told to come back."""
    status, answer = phone.hello()
    assert status in {200, 503}, answer
    return status == 200


class PersistentPost:
    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._connection: http.client.HTTPConnection | None = None

    def __call__(self, body: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=PATIENCE_S)
        try:
            self._connection.request("POST", "/v1/exchange", body, {"content-type": MEDIA_TYPE.decode()})
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
