"""A server that speaks Azure's blobs, in a process of its own: `azurite`, fetched once by npm into the user's cache."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import requests

from resurge.bench._downloads import CACHE
from resurge.up.free_ports import free_ports
from tests.patience import wait_until
from tests.skips import skip_download

VERSION = "3.35.0"
FETCH_S = 300
CONTAINER = "stores"
# Those of the emulator, known to everybody; it accepts no others.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def program() -> Path:
    """Where azurite's program is; fetched when it is not there. A test that needs it ends where it cannot be."""
    folder = CACHE / f"azurite-{VERSION}"
    found = folder / "node_modules" / ".bin" / "azurite-blob"
    if found.exists():
        return found
    fetched = CACHE / f"azurite-fetching-{os.getpid()}"
    fetched.mkdir(parents=True)
    try:
        command = ["npm", "install", "--prefix", str(fetched), "--no-audit", "--no-fund", f"azurite@{VERSION}"]
        done = subprocess.run(command, capture_output=True, timeout=FETCH_S, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError):
        done = None
    if done is None or done.returncode:
        shutil.rmtree(fetched, ignore_errors=True)
        skip_download("azurite, by npm")
    if not folder.exists():
        fetched.rename(folder)
    return found


class BlobServer:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        self.environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.url, "AZURE_ALLOW_HTTP": "true",
        }  # fmt: skip
        self.location = f"az://{CONTAINER}"

    def make_container(self) -> bool:
        """By the shared key: the request's headers and its resource, signed."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        said = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        signed = f"PUT\n\n\n\n\n\n\n\n\n\n\n\n{said}{resource}".encode()
        digest = hmac.digest(base64.b64decode(KEY), signed, hashlib.sha256)
        headers["authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        answer = requests.put(f"{self.url}/{CONTAINER}?restype=container", headers=headers, timeout=60)
        answer.raise_for_status()
        return True


@contextmanager
def running(folder: Path) -> Iterator[BlobServer]:
    (port,) = free_ports(1)
    command = [str(program()), "--blobPort", str(port), "--location", str(folder), "--silent", "--skipApiVersionCheck"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = BlobServer(port)
            wait_until(server.make_container, "azurite listens", again_after=requests.ConnectionError)
            yield server
        finally:
            process.kill()
