"""The screen talks to the service: JSON lines over a loopback socket, each side sure of the other.

Theory of operation. On a phone the service that records is a process of its own, so that closing or crashing the app
costs no reading; on a desktop both are in one process and use the same socket. The service listens on 127.0.0.1 and
writes port and a fresh 32-byte token to `home/service.link`, readable by its owner only. Whoever shares the machine
can connect to the port, or take it when the service has died, so nobody is believed without the token:

    service  {"challenge": S}                                    S, C: 16 random bytes
    client   {"challenge": C, "proof": HMAC(token, "client" S C)}
    service  {"proof": HMAC(token, "service" S C)}               the client hangs up if it is wrong
    client   {"id": 7, "call": "samples", "arguments": {...}}
    service  {"id": 7, "value": ...}  or  {"id": 7, "error": {"code": ..., "message": ...}}

The token itself never crosses the socket. After that the connection is believed: a stranger without root can neither
read nor write another process's loopback connection. Every line is bounded before it is parsed, and an unproven
connection has two seconds and one short line.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mobile_app.home.files import publish
from shared.errors import PeerError, ResurgeError, UsageError

LINK_FILE = "service.link"
TOKEN_BYTES = 32
CHALLENGE_BYTES = 16
GREETING_BYTES_MAX = 512
REQUEST_BYTES_MAX = 1024 * 1024  # a plan that is submitted to a fleet is the longest
REPLY_BYTES_MAX = 8 * 1024 * 1024
CONNECTIONS_MAX = 8
PROVE_WITHIN_S = 2.0
ANSWER_WITHIN_S = 30.0

Handler = Callable[[str, Mapping[str, Any]], Any]  # (call, arguments) -> plain JSON data; refuses with a ResurgeError


class ServiceRefused(ResurgeError):
    """The service said no; `code` is its stable code, the text says what to do."""


class ServiceGone(ResurgeError):
    """No service answers here: it is not running, or it ended. Open again."""


class ServiceServer:
    """Listens from construction to `close`. The handler is called from several threads, one per connection."""

    def __init__(self, home: Path, handler: Handler) -> None:
        self._home = home
        self._handler = handler
        self._token = os.urandom(TOKEN_BYTES)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.port: int = self._listener.getsockname()[1]
        publish(home / LINK_FILE, json.dumps({"port": self.port, "token": self._token.hex()}).encode())
        threading.Thread(target=self._accept, name="service-link", daemon=True).start()

    def close(self) -> None:
        """Stop listening and hang up. The file goes too, unless another service has written its own since."""
        with self._lock:
            self._closed = True
            waiting = list(self._open)
        self._listener.close()
        for connection in waiting:
            _hang_up(connection)
        kept = _read_link(self._home)
        if kept is not None and kept[1] == self._token:
            (self._home / LINK_FILE).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                refused = self._closed or len(self._open) >= CONNECTIONS_MAX
                if not refused:
                    self._open.add(connection)
            if refused:
                connection.close()
            else:
                threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        try:
            lines = _Lines(connection)
            if self._proven(connection, lines):
                connection.settimeout(None)
                while (line := lines.read(REQUEST_BYTES_MAX)) is not None:
                    _write(connection, self._answer(line))
        except (OSError, PeerError):
            pass  # the client went away, or was none; its connection ends here
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _proven(self, connection: socket.socket, lines: _Lines) -> bool:
        connection.settimeout(PROVE_WITHIN_S)
        mine = os.urandom(CHALLENGE_BYTES)
        _write(connection, {"challenge": mine.hex()})
        line = lines.read(GREETING_BYTES_MAX)
        greeting = _object(line) if line is not None else {}
        theirs, proof = _hexadecimal(greeting.get("challenge")), _hexadecimal(greeting.get("proof"))
        if len(theirs) != CHALLENGE_BYTES or not hmac.compare_digest(
            proof, _proof(self._token, b"client", mine, theirs)
        ):
            return False
        _write(connection, {"proof": _proof(self._token, b"service", mine, theirs).hex()})
        return True

    def _answer(self, line: bytes) -> dict[str, Any]:
        request = _object(line)
        number, call, arguments = request.get("id"), request.get("call"), request.get("arguments")
        if type(number) is not int or not isinstance(call, str) or not isinstance(arguments, dict):
            raise PeerError("a request to the service lacks id, call or arguments", code="service-request")
        try:
            return {"id": number, "value": self._handler(call, arguments)}
        except ResurgeError as refusal:
            return {"id": number, "error": {"code": refusal.code, "message": refusal.message}}
        except Exception as error:  # the edge of a thread: the screen must hear of it, and the service go on
            text = f"the service failed at {call!r}: {type(error).__name__}: {error}"
            return {"id": number, "error": {"code": "service-failed", "message": text}}


class ServiceClient:
    """One connection to the service of a home. Thread-safe; one call at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = _Lines(connection)
        self._lock = threading.Lock()
        self._next = 0

    @classmethod
    def open(cls, home: Path, *, timeout_s: float = 2.0) -> ServiceClient:
        """Connect to the running service. ServiceGone when there is none, or a stranger has its port."""
        kept = _read_link(home)
        if kept is None:
            raise ServiceGone(f"no service runs in {str(home)!r}; start it", code="service-gone")
        port, token = kept
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        except OSError as error:
            raise ServiceGone(f"the service in {str(home)!r} does not answer ({error})", code="service-gone") from error
        client = cls(connection)
        try:
            client._prove(token)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(ANSWER_WITHIN_S)
        return client

    def close(self) -> None:
        _hang_up(self._connection)
        self._connection.close()

    def view(self) -> dict[str, Any]:
        """The node's view state, at most a second old: account, spool, sensors, plan, recording, policy, health."""
        return dict(self._call("view"))

    def samples(self, sensor: str, after: int = 0) -> dict[str, Any]:
        """The newest readings of a sensor later than `after` (event time, microseconds), with actual rate and gaps.

        A sensor that nothing else reads is read from now on, for the eye only, while somebody keeps asking.
        """
        return dict(self._call("samples", sensor=sensor, after=after))

    def results(self, after: int = 0) -> list[dict[str, Any]]:
        """Results whose `number` of the downlink is greater than `after`, in that order."""
        return list(self._call("results", after=after))

    def plan(self) -> dict[str, Any]:
        """The running plan: operators here and there, edges between; empty without a plan."""
        return dict(self._call("plan"))

    def ledger(self, limit: int = 100) -> list[dict[str, Any]]:
        """What was given up and why, newest first."""
        return list(self._call("ledger", limit=limit))

    def health(self) -> list[dict[str, Any]]:
        """Why it stopped, or what is in its way: {"code", "what", "since", "remedy"}, worst first."""
        return list(self._call("health"))

    def do(self, name: str, /, **arguments: Any) -> Any:
        """Have the service do one of the things in `commands.py`; ServiceRefused says why it will not."""
        return self._call("do", name=name, arguments=arguments)

    def _call(self, call: str, **arguments: Any) -> Any:
        with self._lock:
            self._next += 1
            request = {"id": self._next, "call": call, "arguments": arguments}
            try:
                _write(self._connection, request)
                line = self._lines.read(REPLY_BYTES_MAX)
                answer = _object(line) if line is not None else {}
            except (OSError, PeerError) as error:
                self._connection.close()
                raise ServiceGone(f"the service went away during {call!r} ({error})", code="service-gone") from error
            if answer.get("id") != self._next:
                self._connection.close()
                raise ServiceGone(f"the service went away during {call!r}", code="service-gone")
        refusal = answer.get("error")
        if isinstance(refusal, dict):
            raise ServiceRefused(str(refusal.get("message", "")), code=str(refusal.get("code", "service-failed")))
        return answer.get("value")

    def _prove(self, token: bytes) -> None:
        try:
            line = self._lines.read(GREETING_BYTES_MAX)
            theirs = _hexadecimal(_object(line or b"").get("challenge"))
            mine = os.urandom(CHALLENGE_BYTES)
            _write(
                self._connection,
                {"challenge": mine.hex(), "proof": _proof(token, b"client", theirs, mine).hex()},
            )
            line = self._lines.read(GREETING_BYTES_MAX)
            proof = _hexadecimal(_object(line or b"").get("proof"))
        except (OSError, PeerError) as error:
            raise ServiceGone(f"what listens at the service's port is not it ({error})", code="service-gone") from error
        if not hmac.compare_digest(proof, _proof(token, b"service", theirs, mine)):
            raise ServiceGone("what listens at the service's port does not know its token", code="service-gone")


def tell_service(home: Path, name: str, /, **arguments: Any) -> bool:
    """Have the service of this home do this, if one runs here; whether one did."""
    try:
        client = ServiceClient.open(home)
    except ServiceGone:
        return False
    try:
        client.do(name, **arguments)
    except ServiceGone:
        return False
    finally:
        client.close()
    return True


class _Lines:
    """Lines of a socket, bounded before anything is kept of them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()

    def read(self, bytes_max: int) -> bytes | None:
        """The next line without its end; None when the other side hung up."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > bytes_max:
                raise PeerError(f"a line on the service's socket is longer than {bytes_max} bytes", code="service-line")
            part = self._connection.recv(64 * 1024)
            if not part:
                return None
            self._buffer += part
        if end > bytes_max:
            raise PeerError(f"a line on the service's socket is longer than {bytes_max} bytes", code="service-line")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


def _write(connection: socket.socket, value: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(value).encode() + b"\n")


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise PeerError("a line on the service's socket is not a JSON object", code="service-line")
    return value


def _hexadecimal(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


def _proof(token: bytes, side: bytes, service_challenge: bytes, client_challenge: bytes) -> bytes:
    return hmac.digest(token, side + service_challenge + client_challenge, hashlib.sha256)


def _read_link(home: Path) -> tuple[int, bytes] | None:
    """(port, token) of the service that last started here; None when there is no whole file."""
    try:
        kept = json.loads((home / LINK_FILE).read_bytes())
        port, token = int(kept["port"]), bytes.fromhex(kept["token"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{LINK_FILE} in {str(home)!r} is not whole; start the service again", code="home-damaged"
        ) from error
    return port, token


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is down already
        connection.shutdown(socket.SHUT_RDWR)
