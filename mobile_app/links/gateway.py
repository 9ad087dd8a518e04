"""The link to the gateway over HTTP: one `requests` session, bounded times, a pinned key (`pinning.py`).

Exchanges go through the session's connection pool: cookies, redirects, proxies and the history of a browser are no part
of one, and preparing and unpacking them would be half of what it costs a phone's processor.
"""

from __future__ import annotations

import requests
from requests.adapters import HTTPAdapter
from urllib3 import exceptions
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.response import BaseHTTPResponse
from urllib3.util import Timeout

from mobile_app.links.link import REPLY_BYTES_MAX, LinkDown
from mobile_app.links.pinning import PinnedAdapter
from shared.errors import PeerError
from shared.wire.waiting import is_news

TIMEOUT = Timeout(connect=4.0, read=15.0)
WAIT_TIMEOUT = Timeout(connect=4.0, read=65.0)  # a gateway holds who waits for less than a minute
CONTENT_TYPE = "application/vnd.resurge.exchange"
OK, NO_SESSION = 200, 401


class GatewayLink:
    """Exchanges with one gateway. `url` is its root, http or https; https without a pin uses the system's roots."""

    def __init__(self, url: str, *, pin: bytes = b"") -> None:
        self._url = url.rstrip("/")
        self._path = ""  # of the URL, once that has proved to be one
        self._pin = pin
        self._session = self._open()
        self._pool: HTTPConnectionPool | None = None

    def _open(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # a proxy or .netrc of the shell is no part of how a device reaches its gateway
        if self._pin:
            session.mount("https://", PinnedAdapter(self._pin))
        return session

    def _connections(self) -> HTTPConnectionPool:
        """The session's connections to this gateway, found out once: doing it each time is a third of an exchange."""
        request = self._session.prepare_request(requests.Request("POST", self._url))
        self._path = request.path_url.rstrip("/")
        adapter = self._session.get_adapter(self._url)
        if not isinstance(adapter, HTTPAdapter):
            raise requests.exceptions.InvalidSchema(self._url)
        verify = not self._pin  # with a pin the key decides, not an authority
        pool = adapter.get_connection_with_tls_context(request, verify)
        adapter.cert_verify(pool, self._url, verify, None)  # type: ignore[no-untyped-call]  # it has no types
        if not isinstance(pool, HTTPConnectionPool):
            raise requests.exceptions.InvalidSchema(self._url)
        return pool

    def exchange(self, body: bytes) -> bytes:
        status, kind, answer = self._post("/v1/exchange", body, CONTENT_TYPE)
        if kind != CONTENT_TYPE:  # a refusal is frames too; anything else is a proxy or a hotel's login page
            raise LinkDown(f"something else than the gateway answered (HTTP {status})")
        return answer

    def wait(self, body: bytes) -> bool:
        """Whether something came for this device; False after a while. From another thread than exchanges, on a
        connection of its own. Raises LinkDown, also when the gateway will not have anybody wait."""
        status, kind, answer = self._post("/v1/wait", body, CONTENT_TYPE, timeout=WAIT_TIMEOUT)
        if status == NO_SESSION:
            return True  # an exchange opens another one
        if status != OK or kind != CONTENT_TYPE:
            raise LinkDown(f"nobody can wait there now (HTTP {status})")
        try:
            return is_news(answer)
        except PeerError as error:
            raise LinkDown(error.message) from None

    def enrol(self, request: bytes) -> tuple[int, bytes]:
        status, _, answer = self._post("/v1/enrol", request, "application/json")
        return status, answer

    def _post(
        self, path: str, body: bytes, content_type: str, *, timeout: Timeout = TIMEOUT
    ) -> tuple[int, str, bytes]:  # fmt: skip
        headers = {"Content-Type": content_type, "User-Agent": "resurge"}
        try:
            pool = self._pool  # another thread may reset it
            if pool is None:
                pool = self._pool = self._connections()
            response = pool.urlopen(
                "POST", self._path + path, body, headers, retries=False, redirect=False, timeout=timeout,
                preload_content=False,
            )  # fmt: skip
            try:
                return response.status, response.headers.get("Content-Type", ""), _bounded(response)
            finally:
                response.close()
                response.release_conn()
        except (exceptions.HTTPError, requests.RequestException, OSError) as error:
            raise LinkDown(_reason(error)) from error

    def reset(self) -> None:
        self._session.close()
        self._session, self._pool = self._open(), None

    def close(self) -> None:
        self._session.close()


def _bounded(response: BaseHTTPResponse) -> bytes:
    """The body, no more of it than an answer may have: a hostile gateway cannot fill the phone's memory."""
    body: bytes = response.read(REPLY_BYTES_MAX + 1, decode_content=True)
    if len(body) > REPLY_BYTES_MAX:
        raise LinkDown(f"the answer is longer than {REPLY_BYTES_MAX} bytes")
    return body


def _reason(error: Exception) -> str:
    if isinstance(error, exceptions.SSLError):
        return "the gateway's key is not the pinned one, or TLS failed"
    if isinstance(error, requests.RequestException):
        return "the gateway's address is none"
    # Nobody there is a kind of timeout to urllib3, and to nobody else.
    if isinstance(error, exceptions.TimeoutError) and not isinstance(error, exceptions.NewConnectionError):
        return "the gateway did not answer in time"
    return "the gateway cannot be reached"
