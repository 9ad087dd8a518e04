"""Where a log in Kafka is, and how a client reaches it: `kafka://HOST:PORT,HOST:PORT/NAME`.

NAME stands for two topics, NAME.log and NAME.index. What follows a question mark is `partitions` (of topics that are
made), `security` (plaintext, ssl, sasl_plaintext, sasl_ssl) and `mechanism`. A location is shown to people and
stored, so it holds no secrets: user and password are in the environment of each process that opens it.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import parse_qsl, urlsplit

from cloud_backend.log.partitions import SLOTS
from shared.errors import UsageError

SCHEME = "kafka:"
PARTITIONS = 16  # of a log that is made: enough for some ten thousand devices
USER, PASSWORD, AUTHORITY = "RESURGE_KAFKA_USER", "RESURGE_KAFKA_PASSWORD", "RESURGE_KAFKA_CA"
_SECURITY = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_BROKER = re.compile(r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Location:
    brokers: str  # host:port, with commas between
    name: str
    partitions: int | None = None  # None: as many as the topics have
    security: str = "plaintext"
    mechanism: str = _MECHANISMS[0]

    @property
    def log_topic(self) -> str:
        return f"{self.name}.log"

    @property
    def index_topic(self) -> str:
        return f"{self.name}.index"

    def client(self, environment: Mapping[str, str] | None = None) -> dict[str, str | int]:
        """What every client of these brokers is configured with. UsageError where user or password are not set."""
        given = os.environ if environment is None else environment
        found: dict[str, str | int] = {
            "bootstrap.servers": self.brokers,
            "client.id": "resurge",
            "security.protocol": self.security,
            "log_level": 2,  # what goes wrong is raised where it is asked for
            "socket.keepalive.enable": "true",
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 30_000,
        }
        if self.security.endswith("ssl") and given.get(AUTHORITY):
            found["ssl.ca.location"] = _certificates(given[AUTHORITY])
        if self.security.startswith("sasl"):
            if not given.get(USER) or not given.get(PASSWORD):
                raise UsageError(
                    f"the brokers of {self.name!r} want a user and a password; set {USER} and {PASSWORD} in the "
                    "environment of this process",
                    code="kafka-credentials",
                )
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": given[USER], "sasl.password": given[PASSWORD]}
        return found


def is_kafka(location: object) -> bool:
    return str(location).startswith(SCHEME)


def parse(text: str) -> Location:
    """UsageError for a location that says something else, or that could be misread."""
    if find_spec("confluent_kafka") is None:
        raise UsageError("a log in Kafka needs its client: pip install 'resurge[kafka]'", code="kafka-client")
    split = urlsplit(text)
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    name = split.path.removeprefix("/")
    brokers = split.netloc.split(",")
    if split.scheme != "kafka" or not _NAME.fullmatch(name) or not all(map(_BROKER.fullmatch, brokers)):
        raise _wrong(text)
    count = options.pop("partitions", None)
    security = options.pop("security", _SECURITY[0])
    mechanism = options.pop("mechanism", _MECHANISMS[0])
    if options or security not in _SECURITY or mechanism not in _MECHANISMS or split.fragment:
        raise _wrong(text)
    if count is not None and not (count.isdigit() and len(count) < 5 and is_fit(int(count))):
        raise _wrong(text)
    return Location(split.netloc, name, None if count is None else int(count), security, mechanism)


def is_fit(partitions: int) -> bool:
    """Whether a log can have so many: a power of two, so that each slot of devices is in one."""
    return 1 <= partitions <= SLOTS and partitions & (partitions - 1) == 0


def _certificates(path: str) -> str:
    """The file, once it was seen to hold certificates: the client says so in words of its own, wherever it is made."""
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise UsageError(
            f"{AUTHORITY} names {path!r}, which holds no certificates that can be read ({error.strerror or error}); "
            "give the file of the brokers' authority, in PEM",
            code="kafka-credentials",
        ) from None
    return path


def _wrong(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no log in Kafka; write kafka://HOST:PORT,HOST:PORT/NAME, after it perhaps ?partitions=16 (a "
        f"power of two up to {SLOTS}), security={'|'.join(_SECURITY)}, mechanism={'|'.join(_MECHANISMS)}",
        code="kafka-location",
    )
