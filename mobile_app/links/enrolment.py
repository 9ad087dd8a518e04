"""Introduce this device to a gateway with the link its operator printed. Trying again with the same link is safe."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from mobile_app.home.keys import load_keys
from mobile_app.links.gateway import GatewayLink
from mobile_app.links.link import Link, LinkDown
from mobile_app.links.relay import RelayLink
from mobile_app.settings import Gateway, load_gateway, load_settings, save_gateway
from shared.errors import UsageError
from shared.wire.enrolment import EnrolmentAnswer, EnrolmentLink, EnrolmentRequest, comparison_digits


@dataclass(frozen=True, slots=True)
class Enrolled:
    device: str
    incarnation: int
    gateway: str
    compare: str  # six digits, to be the same on both screens


@dataclass(frozen=True, slots=True)
class Prepared:
    """The gateway's yes, not stored yet."""

    device: str
    gateway: Gateway
    compare: str


def enrol(home: Path, link_text: str, *, relay: str = "", name: str = "") -> Enrolled:
    """Enrol this home's key; the enrolment is durable when this returns. UsageError says what the gateway refused."""
    prepared = prepare(home, link_text, relay=relay, name=name)
    save_gateway(home, prepared.gateway)
    return Enrolled(prepared.device, prepared.gateway.incarnation, prepared.gateway.url, prepared.compare)


def prepare(home: Path, link_text: str, *, relay: str = "", name: str = "") -> Prepared:
    """Ask the gateway of this link to enrol this home's key; nothing is kept here yet."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = EnrolmentLink.parse(link_text)
    settings = load_settings(home)
    keys = load_keys(home)
    request = EnrolmentRequest(code=link.code, public_key=keys.public_key, name=name or settings.name)
    request = replace(request, signature=keys.sign(request.signed(link.gateway_key)))
    relay = relay or settings.relay
    carrier: Link = RelayLink(relay) if relay else GatewayLink(link.url, pin=link.pin)
    try:
        status, body = carrier.enrol(request.encode())
    except LinkDown as down:
        raise UsageError(
            f"the gateway at {link.host}:{link.port} did not answer ({down}); try again, the code stays good",
            code="enrolment-unreachable",
        ) from down
    finally:
        carrier.close()
    if status != 200:
        raise UsageError(f"the gateway refused the enrolment: {_refusal(body, status)}", code="enrolment-refused")
    answer = EnrolmentAnswer.decode(body, keys.public_key)
    digits = comparison_digits(link.code, keys.public_key, link.gateway_key)
    gateway = Gateway(link.url, link.gateway_key, link.pin, answer.incarnation)
    return Prepared(answer.device.hex(), gateway, digits)


def enrolled_with(home: Path, link_text: str) -> bool:
    """Whether this home is already enrolled with the gateway of this link; its code is not used again then."""
    gateway = load_gateway(home)
    link = EnrolmentLink.parse(link_text)
    return gateway is not None and (gateway.url, gateway.key) == (link.url, link.gateway_key)


def _refusal(body: bytes, status: int) -> str:
    """What a problem+json answer says, bounded; a gateway that says nothing readable is named by its status."""
    try:
        problem = json.loads(body[:4096])
        text = f"{problem.get('detail') or problem['title']} ({problem.get('code', status)})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"HTTP {status}"
    return text[:400] if text.isprintable() else f"HTTP {status}"
