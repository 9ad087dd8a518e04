"""A server that speaks S3, in a process of its own: `moto`, behind a door that counts requests and loses answers.

`GET /_door` answers how many requests there were since the last time, by method. `PUT /_door` with a number lets the next
so many writes happen and then says that they failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).parents[4]
BUCKET = "stores"


class Door:
    def __init__(self, inside: Callable[..., Iterable[bytes]]) -> None:
        self._inside = inside
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()
        self._lose = 0

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if environ["PATH_INFO"] == "/_door":
            return self._asked(method, environ, start)
        with self._lock:
            self._seen[method] += 1
            lost = self._lose > 0 and method == "PUT"
            self._lose -= lost
        if not lost:
            return self._inside(environ, start)
        b"".join(self._inside(environ, lambda *_: None))
        start("500 Internal Server Error", [("content-length", "0")])
        return [b""]

    def _asked(self, method: str, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            said = json.dumps(self._seen).encode()
            if method == "PUT":
                self._lose = int(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            else:
                self._seen.clear()
        start("200 OK", [("content-length", str(len(said)))])
        return [said]


class Server:
    """A running one, as tests know it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.environment = {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",  # any will do
            "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip

    def requests(self) -> Counter[str]:
        """Those since the last time this was asked, by method."""
        return Counter(requests.get(f"{self.url}/_door", timeout=30).json())

    def lose_answers(self, count: int) -> None:
        requests.put(f"{self.url}/_door", data=str(count), timeout=30)


@contextmanager
def running() -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.cloud_backend.spark.storage.object_server"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        server = Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        requests.put(f"{server.url}/{BUCKET}", timeout=60).raise_for_status()
        server.requests()
        try:
            yield server
        finally:
            process.kill()


def main() -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, Door(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
