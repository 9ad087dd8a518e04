"""The link to the gateway over HTTP: one `requests` session, bounded times, a pinned key (`pinning.py`).

Requests go through the session's adapter: cookies, redirects, proxies and the history of a browser are no part of an
exchange, and preparing and unpacking them would be a third of what it costs a phone's processor.
"""

from __future__ import annotations

import requests
from urllib3.exceptions import HTTPError

from mobile_app.links.link import REPLY_BYTES_MAX, LinkDown
from mobile_app.links.pinning import PinnedAdapter

CONNECT_TIMEOUT_S = 4.0
READ_TIMEOUT_S = 15.0
CONTENT_TYPE = "application/vnd.resurge.exchange"


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
            response = self._session.get_adapter(self._url).send(
                self._prepared(path, content_type, body),
                timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
                verify=not self._pin,  # the key decides, not an authority
                stream=True,
            )
            with response:
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
    """The body, no more of it than an answer may have: a hostile gateway cannot fill the phone's memory."""
    try:
        body: bytes = response.raw.read(REPLY_BYTES_MAX + 1, decode_content=True)
    except (HTTPError, OSError) as error:
        raise requests.ConnectionError(error) from error
    if len(body) > REPLY_BYTES_MAX:
        raise LinkDown(f"the answer is longer than {REPLY_BYTES_MAX} bytes")
    return body


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "the gateway's key is not the pinned one, or TLS failed"
    if isinstance(error, requests.Timeout):
        return "the gateway did not answer in time"
    if isinstance(error, requests.ConnectionError):
        return "the gateway cannot be reached"
    return type(error).__name__
