"""At which address phones reach a gateway. A link that says 127.0.0.1 or 0.0.0.0 leads nowhere from a phone."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

EVERYWHERE = "0.0.0.0"  # noqa: S104 - named to a person who wants it
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface
DOCUMENTATION = ("192.0.2.1", 9)  # nobody; connecting a datagram socket sends nothing, it only chooses a way


@dataclass(frozen=True, slots=True)
class Reach:
    host: str  # what a link says
    others: tuple[str, ...] = ()  # further addresses of this machine at which the gateway answers
    warning: str = ""  # why a phone would not get through, and what to do


def reach(listens: str, asked: str = "", addresses: Sequence[str] | None = None) -> Reach:
    """The address for a link to a gateway that listens on `listens`. `asked`: what the operator wants it to say;
    `addresses`: those of this machine, if they are known."""
    known = machine_addresses() if addresses is None else list(addresses)
    if is_loopback(listens):
        again = " or ".join([*known[:1], EVERYWHERE])
        return Reach(
            _bracketed(asked or listens), (),
            f"the gateway listens on {listens}, so only this machine reaches it. For a phone, start the gateway (or "
            f"`resurge up`) with --host {again}, and pair again",
        )  # fmt: skip
    everywhere = is_everywhere(listens)
    others = tuple(each for each in known if each != asked) if everywhere else ()
    if asked:
        warning = f"{asked} is every machine's name for itself: a phone would look for the gateway on the phone"
        return Reach(_bracketed(asked), others, warning if is_loopback(asked) or is_everywhere(asked) else "")
    if not everywhere:
        return Reach(_bracketed(listens))
    if not known:
        return Reach(
            "127.0.0.1", (),
            "this machine has no network address that it knows of; give the one that phones reach with --host",
        )  # fmt: skip
    return Reach(_bracketed(known[0]), tuple(known[1:]))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return False


def is_everywhere(host: str) -> bool:
    """Whether listening there means all addresses of the machine."""
    if not host:
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    return False


def machine_addresses() -> list[str]:
    """This machine's IPv4 addresses beyond loopback, the one its packets usually leave by first."""
    found = [_of_usual_way(), *_of_interfaces(), *_of_name()]
    return [each for each in dict.fromkeys(found) if each and not is_loopback(each) and not is_everywhere(each)]


def _of_usual_way() -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(DOCUMENTATION)
        return str(probe.getsockname()[0])
    return ""


def _of_interfaces() -> list[str]:
    try:
        from fcntl import ioctl
    except ImportError:  # not a POSIX system
        return []
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an IPv4 address, or a system that asks otherwise
                answer = ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _of_name() -> list[str]:
    with contextlib.suppress(OSError):
        return [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return []


def _bracketed(host: str) -> str:
    """An IPv6 address as links and URLs write it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
