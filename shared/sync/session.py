"""Sessions: who is at the other end, proved once, then cheap.

Theory of operation. A device opens a session with HELLO, signed by its enrolled Ed25519 key and carrying an
ephemeral X25519 key; the gateway answers WELCOME, signed by the key pinned at enrolment over the HELLO it
answers, with its own ephemeral. Both derive two MAC keys, one per direction. From then on every exchange
is sealed (`shared/wire/envelope.py`) and numbered by a counter that only grows.

        device                                gateway
        CLOSED --HELLO-->                     (pending session)
        GREETING          <--WELCOME--
        OPEN   --sealed exchange n-->         first good seal: pending becomes the one session of this
               <--sealed reply n--            (device, incarnation); older ones are fenced
        refused, expired, failed: CLOSED

The rule that must never break: **an exchange is applied at most once, and only in the newest session its
device has used.** A counter at or below the last one is a replay: it is answered, never applied. A session
replaces its predecessor only when the device has used it, not when it is opened: otherwise anybody who
recorded a HELLO could cut a device off by repeating it. A HELLO is good for one session: repeated while that session
waits for its first exchange it is answered the same, repeated later it is refused. So whoever recorded some cannot fill
the room for waiting sessions with them.

Why not a signature per exchange: Ed25519 verifies about 7,000/s on a core, HMAC-SHA256 several hundred
thousand. Cryptographic primitives are ports, so that the simulator runs this file unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple, Protocol

from shared.errors import BrokenInvariant, PeerError
from shared.identity import DEVICE_ID_BYTES, DeviceId, EdgeKey
from shared.language.schema import Schema
from shared.wire import envelope, waiting
from shared.wire.frame import Frame, FrameType, Parts, decode_one, encode
from shared.wire.messages import Hello, Welcome

SESSION_LIFETIME_S = 3600
PENDING_S = 120  # that a device may take from its HELLO to its first exchange
PENDING_PER_DEVICE_MAX = 1024  # as many recorded HELLOs do not push out the one a device just sent
PENDING_MAX = 20_000
APPLIED_MAX = 64  # exchanges of a session, the newest ones, of which it is known whether they were applied
APPLIED_MASK = (1 << APPLIED_MAX) - 1
SPENT_MAX = 100_000  # HELLOs remembered as answered; a forgotten one costs a pending session, no more


class Ephemeral(Protocol):
    """A one-time X25519 key pair."""

    @property
    def public(self) -> bytes: ...

    def agree(self, other_public: bytes) -> bytes:
        """The shared secret; raises PeerError for a degenerate public key."""
        ...


class DeviceKeys(Protocol):
    """A device's long-term keys. The private half never leaves the device."""

    @property
    def public_key(self) -> bytes: ...

    @property
    def gateway_key(self) -> bytes:
        """The gateway's public key, pinned at enrolment."""
        ...

    def sign(self, message: bytes) -> bytes: ...

    def verify_gateway(self, message: bytes, signature: bytes) -> bool: ...

    def ephemeral(self) -> Ephemeral: ...


class GatewayKeys(Protocol):
    @property
    def public_key(self) -> bytes: ...

    def sign(self, message: bytes) -> bytes: ...

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        """Whether this is the device's signature; False, never an exception, for a malformed key."""
        ...

    def ephemeral(self) -> Ephemeral: ...

    def random(self, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Enrolment:
    public_key: bytes
    incarnation: int  # the newest one; older installations of the same key may still drain
    revoked: bool = False


class Enrolments(Protocol):
    def find(self, device: DeviceId) -> Enrolment | None: ...


def gateway_id(public_key: bytes) -> bytes:
    """What a HELLO calls the gateway it is meant for."""
    return hashlib.blake2b(public_key, digest_size=DEVICE_ID_BYTES, person=b"resurge-gateway").digest()


@dataclass(frozen=True, slots=True)
class SessionKeys:
    up: bytes
    down: bytes


def derive(secret: bytes, hello: Hello, welcome: Welcome) -> SessionKeys:
    """HKDF-SHA256 (RFC 5869) over the agreed secret, salted with everything both sides said."""
    salt = hashlib.sha256(welcome.signed(hello) + welcome.signature).digest()
    root = hmac.digest(salt, secret, "sha256")
    up = hmac.digest(root, b"resurge-up\x01", "sha256")
    return SessionKeys(up=up, down=hmac.digest(root, up + b"resurge-down\x02", "sha256"))


# --- the device's end ------------------------------------------------------------------------------------


class SessionState(Enum):
    CLOSED = "closed"
    GREETING = "greeting"
    OPEN = "open"


class DeviceSession:
    """The device's end of its session with the gateway."""

    def __init__(self, keys: DeviceKeys, device: DeviceId, incarnation: int) -> None:
        self.device = device
        self.incarnation = incarnation
        self.keys = keys
        self.state = SessionState.CLOSED
        self._hello: Hello | None = None
        self._hello_before: Hello | None = None
        self._ephemeral: Ephemeral | None = None
        self._session = b""
        self._derived: SessionKeys | None = None
        self._counter = 0
        self._expires = 0.0

    def hello(self) -> bytes:
        """A fresh HELLO body; whatever session there was is over."""
        self._hello_before = self._hello
        self.close()
        self._ephemeral = self.keys.ephemeral()
        unsigned = Hello(
            self.device,
            self.incarnation,
            self.keys.public_key,
            self._ephemeral.public,
            gateway_id(self.keys.gateway_key),
        )
        self._hello = replace(unsigned, signature=self.keys.sign(unsigned.signed()))
        self.state = SessionState.GREETING
        return encode(self._hello.frame())

    def welcome(self, frame: Frame, now: float) -> bool:
        """Open the session. False for a late answer to the HELLO before; PeerError when it is not our gateway's."""
        if self._hello is None or self._ephemeral is None or self.state is not SessionState.GREETING:
            raise PeerError("a WELCOME to no HELLO of ours", code="session-unexpected")
        welcome = Welcome.of(frame)
        if not self.keys.verify_gateway(welcome.signed(self._hello), welcome.signature):
            before = self._hello_before
            if before is not None and self.keys.verify_gateway(welcome.signed(before), welcome.signature):
                return False
            raise PeerError(
                "the WELCOME is not signed by the gateway this device enrolled with; is the link being intercepted?",
                code="session-gateway-signature",
            )
        if welcome.session[0] != envelope.SESSION_ID_FIRST_BYTE:
            raise PeerError("the session id of the WELCOME is malformed", code="session-unexpected")
        self._derived = derive(self._ephemeral.agree(welcome.ephemeral), self._hello, welcome)
        self._session, self._counter = welcome.session, 0
        self._expires = now + welcome.lifetime_s
        self._hello = self._hello_before = self._ephemeral = None
        self.state = SessionState.OPEN
        return True

    def is_open(self, now: float) -> bool:
        return self.state is SessionState.OPEN and now < self._expires

    def seal(self, frames: Iterable[bytes | Parts]) -> bytes:
        """The next exchange. Every sending has a new number, a retry too: a reply to an earlier one does not count."""
        if self._derived is None:
            raise BrokenInvariant("an exchange was sealed without a session", code="session-closed")
        self._counter += 1
        return envelope.seal(self._session, self._counter, frames, self._derived.up)

    @property
    def counter(self) -> int:
        """The number of the newest exchange."""
        return self._counter

    def wait(self, through: int, now: float) -> bytes | None:
        """What to send to hear of results after this number as soon as there are any; None without a session."""
        if self._derived is None or not self._counter or not self.is_open(now):
            return None
        return waiting.request(self._session, through, self._derived.up)

    def open(self, reply: bytes | memoryview, counter: int | None = None) -> memoryview | None:
        """The frames of the reply to our newest exchange, or to the one of this number; None for a reply to another, or
        of another session."""
        if self._derived is None:
            return None
        session, answered = envelope.envelope_session(reply)
        if session != self._session or answered != (self._counter if counter is None else counter):
            return None
        return envelope.open_envelope(reply, self._derived.down)[0]

    def close(self) -> None:
        self.state = SessionState.CLOSED
        self._hello = self._ephemeral = self._derived = None


# --- the gateway's end -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class GatewaySession:
    """The gateway's end of one session. The receiver keeps what it knows of the device's downlink here."""

    id: bytes
    device: DeviceId
    incarnation: int
    public_key: bytes
    keys: SessionKeys
    expires: float
    hello: bytes = b""  # which HELLO it answers
    welcome: bytes = b""  # and with what
    pending_until: float = 0.0
    counter: int = 0
    applied: int = 0  # which exchanges up to the newest were applied: a bit for each, the newest one's is the lowest
    results_through: int = 0
    plan_version: int = -1
    deployment: tuple[int, int] | None = None  # lease and version that a node follows; None: it takes none
    operators: frozenset[str] | None = None  # that the device can run; None while it has not said
    declared: dict[tuple[int, int], Schema] = field(default_factory=dict)  # by slot and schema id

    def slot(self, key: EdgeKey) -> int:
        """What stands for an edge in this session: its number. One that the device carries for others has a number of
        theirs, which one of its own may have, too; so there it is the whole key."""
        if key.device == self.device and key.incarnation == self.incarnation:
            return key.edge
        return int.from_bytes(key.device, "little") << 96 | key.incarnation << 64 | key.edge

    def schema(self, key: EdgeKey, schema_id: int) -> Schema:
        """As it was declared."""
        return self.declared[self.slot(key), schema_id]

    def seal(self, counter: int, frames: Iterable[bytes]) -> bytes:
        return envelope.seal(self.id, counter, frames, self.keys.down)


class Opened(NamedTuple):
    session: GatewaySession
    counter: int
    fresh: bool
    overtaken: bool  # by a newer one, and never applied
    frames: memoryview
    digests: list[bytes]  # of each frame's payload


@dataclass(slots=True, eq=False)
class _DeviceSessions:
    current: GatewaySession | None = None
    pending: dict[bytes, GatewaySession] = field(default_factory=dict)  # by their HELLO, oldest first


class GatewaySessions:
    """Every open session of a gateway, in memory only: after a restart devices are told to say HELLO again."""

    def __init__(
        self,
        keys: GatewayKeys,
        enrolments: Enrolments,
        *,
        lifetime_s: int = SESSION_LIFETIME_S,
        make_id: Callable[[DeviceId], bytes] | None = None,
    ) -> None:
        self._keys = keys
        self._enrolments = enrolments
        self._lifetime_s = lifetime_s
        self._make_id = make_id or self._random_id
        self._gateway = gateway_id(keys.public_key)
        self._sessions: dict[bytes, GatewaySession] = {}
        self._devices: dict[tuple[DeviceId, int], _DeviceSessions] = {}
        self._pending: dict[bytes, GatewaySession] = {}  # of all devices, by session id, oldest first
        self._spent: dict[bytes, None] = {}  # HELLOs whose session is used or gone, oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def greet(self, body: bytes | memoryview, now: float) -> bytes:
        """The WELCOME to a HELLO, or PeerError: unknown, revoked or wrongly signed."""
        frame, end = decode_one(body)
        if frame.type is not FrameType.HELLO or end != len(body):
            raise PeerError("outside a session only one HELLO is understood", code="session-required")
        hello = Hello.of(frame)
        digest = hashlib.sha256(hello.signed() + hello.signature).digest()
        sessions = self._devices.get((hello.device, hello.incarnation))
        if sessions is not None and (waiting := sessions.pending.get(digest)) is not None:
            return waiting.welcome
        if digest in self._spent:
            raise PeerError("this HELLO was answered before; say a new one", code="hello-spent")
        self._check(hello)
        ephemeral = self._keys.ephemeral()
        session_id = self._make_id(hello.device)
        unsigned = Welcome(hello.device, hello.incarnation, session_id, ephemeral.public, self._lifetime_s)
        welcome = replace(unsigned, signature=self._keys.sign(unsigned.signed(hello)))
        session = GatewaySession(
            session_id, hello.device, hello.incarnation, hello.public_key,
            derive(ephemeral.agree(hello.ephemeral), hello, welcome), now + self._lifetime_s,
        )  # fmt: skip
        session.hello, session.welcome, session.pending_until = digest, encode(welcome.frame()), now + PENDING_S
        self._sessions[session_id] = self._pending[session_id] = session
        sessions = self._devices.setdefault((hello.device, hello.incarnation), _DeviceSessions())
        sessions.pending[digest] = session
        if len(sessions.pending) > PENDING_PER_DEVICE_MAX:
            self._close(next(iter(sessions.pending.values())))
        elif len(self._pending) > PENDING_MAX:
            self._close(next(iter(self._pending.values())))
        return session.welcome

    def claimed(self, body: bytes | memoryview) -> GatewaySession | None:
        """The session a sealed body claims, before its seal is checked: good for rate limits, nothing else."""
        return self._sessions.get(bytes(body[: envelope.SESSION_ID_BYTES]))

    def waiter(self, body: bytes, now: float) -> tuple[GatewaySession, int]:
        """Whose request to wait this is, and through which result it has all. Only of a session that was used."""
        session = self._sessions.get(waiting.claimed_session(body))
        if session is None or not session.counter or now >= session.expires:
            raise PeerError("no such session here; say HELLO again", code="session-unknown")
        return session, waiting.opened(body, session.keys.up)

    def open(self, body: bytes | memoryview, now: float) -> Opened:
        """A sealed exchange (a body that `is_envelope`), its seal checked; not fresh means a replay: answer, apply
        nothing. An overtaken one was not applied either, and whoever waits for it must hear so."""
        session_id, counter = envelope.ENVELOPE.unpack_from(body)
        session = self._sessions.get(session_id)
        if session is None:
            raise PeerError("no such session here; say HELLO again", code="session-unknown")
        frames, digests = envelope.open_envelope(body, session.keys.up)
        if now >= session.expires:
            self._close(session)
            raise PeerError("the session has expired; say HELLO again", code="session-expired")
        fresh = counter > session.counter
        apart = min(abs(counter - session.counter), APPLIED_MAX)
        overtaken = not fresh and apart < APPLIED_MAX and not session.applied >> apart & 1
        if fresh:
            if not session.counter:
                self._fence(session)
            session.counter = counter
            session.applied = (session.applied << apart | 1) & APPLIED_MASK
        return Opened(session, counter, fresh, overtaken, frames, digests)

    def end(self, is_over: Callable[[DeviceId], bool]) -> None:
        """End every session of the devices that this is true of; they say HELLO to whoever looks after them now."""
        for session in [session for session in self._sessions.values() if is_over(session.device)]:
            self._close(session)

    def _random_id(self, device: DeviceId) -> bytes:  # noqa: ARG002 - others put something of it in
        return bytes([envelope.SESSION_ID_FIRST_BYTE]) + self._keys.random(envelope.SESSION_ID_BYTES - 1)

    def revoke(self, device: DeviceId) -> int:
        """End every session of a device at once; returns how many there were."""
        ended = [session for session in self._sessions.values() if session.device == device]
        for session in ended:
            self._close(session)
        return len(ended)

    def expire(self, now: float) -> None:
        """Forget sessions past their life, and those that nobody used; call it now and then."""
        for session in [session for session in self._sessions.values() if now >= session.expires]:
            self._close(session)
        while self._pending and now >= next(iter(self._pending.values())).pending_until:
            self._close(next(iter(self._pending.values())))

    def forget_declarations(self) -> None:
        """A declaration may not have reached the log: have every device declare its edges again."""
        for session in self._sessions.values():
            session.declared.clear()

    def _check(self, hello: Hello) -> None:
        enrolment = self._enrolments.find(hello.device)
        # An unknown device and a wrong signature get the same words: nobody learns who is enrolled here.
        if (
            enrolment is None
            or enrolment.public_key != hello.public_key
            or hello.gateway != self._gateway
            or not self._keys.verify(enrolment.public_key, hello.signed(), hello.signature)
        ):
            raise PeerError("this device is not enrolled here, or its signature is wrong", code="device-unknown")
        if enrolment.revoked:
            raise PeerError("this device's enrolment was revoked; pair it again", code="device-revoked")
        if not 0 < hello.incarnation <= enrolment.incarnation:
            raise PeerError(
                "this incarnation of the device was never enrolled; pair it again", code="device-incarnation"
            )

    def _fence(self, session: GatewaySession) -> None:
        """The device has used this session: every other one of the same installation is over."""
        sessions = self._devices[(session.device, session.incarnation)]
        self._spend(session)
        before, sessions.current = sessions.current, session
        for other in (*sessions.pending.values(), *((before,) if before else ())):
            self._close(other)

    def _close(self, session: GatewaySession) -> None:
        self._sessions.pop(session.id, None)
        self._spend(session)
        sessions = self._devices.get((session.device, session.incarnation))
        if sessions is None:
            return
        if sessions.current is session:
            sessions.current = None
        if not sessions.pending and sessions.current is None:
            del self._devices[(session.device, session.incarnation)]

    def _spend(self, session: GatewaySession) -> None:
        """It waits no longer, and its HELLO is good for no other."""
        if self._pending.pop(session.id, None) is None:
            return
        del self._devices[(session.device, session.incarnation)].pending[session.hello]
        self._spent[session.hello] = None
        session.welcome = b""
        if len(self._spent) > SPENT_MAX:
            del self._spent[next(iter(self._spent))]
