from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cloud_backend.gateway.app import GatewayApp, create_app
from cloud_backend.gateway.ingest import MEDIA_TYPE, PATH
from cloud_backend.gateway.rate_limits import Rate
from cloud_backend.gateway.settings import Settings
from tests.cloud_backend.gateway.phone_client import PhoneClient

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette asks for httpx2, which nothing else here needs
    from fastapi.testclient import TestClient

UNLIMITED = Rate(per_s=1e9, burst=1e9)


def settings_for(home: Path, **changes) -> Settings:
    limits = {"exchange_rate": UNLIMITED, "byte_rate": UNLIMITED, "failure_rate": UNLIMITED}
    return Settings(home=home, **{"reserve_bytes": 0, **limits, **changes})


class Service:
    """A gateway app under test, with everything a test wants to look at."""

    def __init__(self, app: GatewayApp, client: TestClient) -> None:
        self.app = app
        self.gateway = app.gateway
        self.client = client

    def post(self, body: bytes, **headers: str) -> tuple[int, bytes]:
        response = self.client.post(PATH, content=body, headers={"content-type": MEDIA_TYPE.decode(), **headers})
        return response.status_code, response.content

    def phone(self, name: str = "phone", *, private: bytes | None = None) -> PhoneClient:
        """A phone that is paired and has said HELLO."""
        phone = PhoneClient(self.gateway.keys.public_key, self.post, private=private, name=name)
        code = self.gateway.roster.new_code(time.time_ns() // 1000)
        answer = self.client.post(
            "/v1/enrol", content=phone.enrolment(code), headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        phone.enrolled(answer.json()["incarnation"])
        assert phone.hello()[0] == 200
        return phone

    def log_bytes(self) -> dict[str, bytes]:
        directory = self.gateway.settings.log_directory
        return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}

    def operator(self) -> dict[str, str]:
        token = (self.gateway.settings.home / "operator.token").read_text()
        return {"authorization": f"Bearer {token}"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Start a gateway on a home; starting again on the same home is a restart after a kill."""
    running: list[TestClient] = []

    def start_one(home: Path = tmp_path / "home", **changes) -> Service:
        app = create_app(settings_for(home, **changes))
        client = TestClient(app)
        client.__enter__()
        running.append(client)
        return Service(app, client)

    yield start_one
    for client in running:
        client.__exit__(None, None, None)


@pytest.fixture
def service(start) -> Service:
    return start()
