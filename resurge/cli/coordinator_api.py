"""How commands ask the coordinator of a fleet: by the home of the gateway or of the node that it runs in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.errors import UsageError


def ask_coordinator(home: Path, call: str, **arguments: Any) -> dict[str, Any]:
    """What the coordinator in this home says; UsageError as it refuses, or where none runs."""
    return _ask_node(home, call, arguments) if is_node_home(home) else _ask_gateway(home, call, arguments)


def is_node_home(home: Path) -> bool:
    """Whether a node of a fleet has this home, and no gateway."""
    return (home.expanduser() / "fleet").is_dir()


def _ask_node(home: Path, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from mobile_app.service.connection import ServiceClient, ServiceGone

    try:
        client = ServiceClient.open(home.expanduser())
    except ServiceGone:
        raise UsageError(
            f"no node of a fleet runs in {str(home)!r}; give the --home of the node that coordinates it, started with "
            "`resurge node run --fleet FILE`, or of the gateway that does",
            code="fleet-home",
        ) from None
    try:
        return dict(client.do("coordinate", call=call, arguments=arguments))
    finally:
        client.close()


def _ask_gateway(home: Path, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from resurge.cli.gateway_api import Api

    api = Api(home.expanduser())
    if call == "queries":
        return api.get("/fleets/queries")
    if call == "regions":
        return api.get("/fleets/regions")
    if call == "add_region":
        return api.post("/fleets/regions", arguments | {"plan": json.dumps(arguments["plan"])})
    if call == "drop_region":
        return api.delete(f"/fleets/regions/{arguments['name']}")
    if call == "drop":
        return api.delete(f"/fleets/queries/{arguments['name']}")
    if call == "edit":
        return api.post(f"/fleets/queries/{arguments['name']}/edit", {"plan": json.dumps(arguments["plan"])})
    return api.post("/fleets/queries", arguments | {"plan": json.dumps(arguments["plan"])})
