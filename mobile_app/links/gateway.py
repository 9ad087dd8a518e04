"""The link to the gateway over HTTP: one `requests` session, bounded times, a pinned certificate.

A pinned certificate is checked by its fingerprint, before a byte of a request is sent, and by nothing else: the
gateway of a household or a lab has no name a public authority would vouch for, and whoever shows another certificate,
however well signed, is not it.
"""

from __future__ import annotations

import ssl
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from mobile_app.links.link import REPLY_BYTES_MAX, LinkDown

CONNECT_TIMEOUT_S = 4.0
READ_TIMEOUT_S = 15.0
CHUNK_BYTES = 64 * 1024
CONTENT_TYPE = "application/vnd.resurge.exchange"


class PinnedAdapter(HTTPAdapter):
    """Speaks TLS 1.3 to the holder of the certificate with this SHA-256 fingerprint, and to nobody else."""

    def __init__(self, pin: bytes) -> None:
        self._pin = pin
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(
            *arguments,
            assert_fingerprint=self._pin.hex(),
            ssl_minimum_version=ssl.TLSVersion.TLSv1_3,
            **options,
        )


class GatewayLink:
    """Exchanges with one gateway. `url` is its root, http or https; https without a pin uses the system's roots."""

    def __init__(self, url: str, *, pin: bytes = b"") -> None:
        self._url = url.rstrip("/")
        self._pin = pin
        self._session = self._open()
        self._requests: dict[str, requests.PreparedRequest] = {}

    def _open(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # a proxy or .netrc of the shell is no part of how a device reaches its gateway
        if self._pin:
            session.verify = False  # the fingerprint decides, not an authority
            session.mount("https://", PinnedAdapter(self._pin))
        return session

    def exchange(self, body: bytes) -> bytes:
        status, kind, answer = self._post("/v1/exchange", body, CONTENT_TYPE)
        if kind != CONTENT_TYPE:  # a refusal is frames too; anything else is a proxy or a hotel's login page
            raise LinkDown(f"something else than the gateway answered (HTTP {status})")
        return answer

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        status, _, answer = self._post("/v1/enrol", request, "application/json")
        return status, answer

    def _post(self, path: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
        try:
            with self._session.send(
                self._prepared(path, content_type, body),
                timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
                allow_redirects=False,
                stream=True,
            ) as response:
                return response.status_code, response.headers.get("Content-Type", ""), _bounded(response)
        except requests.RequestException as error:
            raise LinkDown(_reason(error)) from error

    def _prepared(self, path: str, content_type: str, body: bytes) -> requests.PreparedRequest:
        """The request, prepared once per path: doing it each time is a third of what an exchange costs the CPU."""
        prepared = self._requests.get(path)
        if prepared is None:
            request = requests.Request("POST", self._url + path, {"Content-Type": content_type})
            prepared = self._requests[path] = self._session.prepare_request(request)
        prepared.body = body
        prepared.headers["Content-Length"] = str(len(body))
        return prepared

    def reset(self) -> None:
        self._session.close()
        self._session = self._open()

    def close(self) -> None:
        self._session.close()


def _bounded(response: requests.Response) -> bytes:
    """The body, read in pieces so that a hostile gateway cannot fill the phone's memory."""
    parts: list[bytes] = []
    total = 0
    for part in response.iter_content(CHUNK_BYTES):
        total += len(part)
        if total > REPLY_BYTES_MAX:
            raise LinkDown(f"the answer is longer than {REPLY_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "the gateway's certificate is not the pinned one, or TLS failed"
    if isinstance(error, requests.Timeout):
        return "the gateway did not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "the gateway cannot be reached"
    return type(error).__name__
