"""Pairing in two steps: ask the gateway, compare a short string on both screens, then mean it.

The gateway's answer is kept in memory until the person has said that both screens show the same digits, which are
derived from the link's code, the device's key and the gateway's key: whoever sits between, or took the code first,
shows others. Before that nothing is enrolled here and no reading leaves. A "no" throws the answer away; the gateway
then has a device that never speaks, which its operator can revoke.
"""

from __future__ import annotations

from pathlib import Path

from mobile_app.home.files import remove_durably
from mobile_app.links.enrolment import Prepared, prepare
from mobile_app.settings import load_gateway, save_gateway
from shared.errors import UsageError


class Pairing:
    """Of one home. `ask` talks to the gateway and may take some seconds; call it beside the loop."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._prepared: Prepared | None = None

    def state(self) -> dict[str, str] | None:
        prepared = self._prepared
        return None if prepared is None else {"confirmation": prepared.compare, "gateway": prepared.gateway.url}

    def ask(self, link: str) -> dict[str, str]:
        self._prepared = prepare(self._home, link)
        return {"confirmation": self._prepared.compare, "gateway": self._prepared.gateway.url}

    def confirm(self, *, yes: bool) -> bool:
        """Whether the home is enrolled now; the node has to be opened again then."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            raise UsageError("there is no pairing to confirm; scan or paste the link first", code="pairing-none")
        if yes:
            save_gateway(self._home, prepared.gateway)
        return yes

    def forget(self) -> str:
        """Leave the gateway; returns its address. What is spooled stays here and goes to the next one."""
        gateway = load_gateway(self._home)
        if gateway is None:
            raise UsageError("this device is not paired", code="pairing-none")
        remove_durably(self._home, "gateway.json")
        return gateway.url
