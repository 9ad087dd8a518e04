"""How commands ask a running gateway and show what it says: a table, one JSON object, or either again and again.

The gateway is found by its home: `gateway.json` says where it listens, `operator.token` is what makes this an operator.
Both files are readable only to whoever owns the gateway, so no command needs a password.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

DEFAULT_HOME = Path(".resurge/gateway")
WATCH_EVERY_S = 2.0
TIMEOUT_S = 30.0

Home = Annotated[Path, typer.Option(help="the gateway's home", envvar="RESURGE_HOME")]
AsJson = Annotated[bool, typer.Option("--json", help="last line is one JSON object")]
Watch = Annotated[bool, typer.Option("--watch", help="show it again every two seconds, until Ctrl-C")]
Device = Annotated[str, typer.Argument(help="a device's name, its id, or the start of its id")]


class Api:
    """The JSON API of the gateway that runs in a home."""

    def __init__(self, home: Path) -> None:
        import requests

        from cloud_backend.gateway.address_file import read_address
        from shared.errors import UsageError

        address = read_address(home)
        try:
            token = (home / "operator.token").read_text().strip()
        except FileNotFoundError:
            raise UsageError(
                f"no gateway has run in {str(home)!r}; give its --home, or start one with resurge up",
                code="gateway-home",
            ) from None
        scheme = "https" if address["pin"] else "http"
        listening = str(address["host"])
        host = "127.0.0.1" if listening in ("0.0.0.0", "::", "localhost") else listening  # noqa: S104 - its own choice
        self._base = f"{scheme}://{host}:{address['port']}"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy between this machine and itself
        self._session.headers["Authorization"] = f"Bearer {token}"
        if scheme == "https":
            from cloud_backend.gateway.certificate import CERTIFICATE_FILE
            from resurge.cli.own_certificate import OwnCertificate

            self._session.mount("https://", OwnCertificate(home / CERTIFICATE_FILE))

    def get(self, path: str, **parameters: object) -> dict[str, Any]:
        return self._ask("GET", path, params={key: value for key, value in parameters.items() if value is not None})

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._ask("POST", path, json=body)

    def delete(self, path: str) -> dict[str, Any]:
        return self._ask("DELETE", path)

    def raw(self, path: str, **parameters: str) -> bytes:
        """An answer that is a file."""
        return bytes(self._answer("GET", path, params=parameters).content)

    def device(self, text: str) -> dict[str, Any]:
        """The one device whose name or id this is, or whose id starts so."""
        return _one(self.get("/devices")["devices"], text, name="device", code="device-not-found")

    def stream(self, text: str) -> dict[str, Any]:
        return _one(self.get("/streams")["streams"], text, name="edge", code="stream-not-found")

    def _ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        value: dict[str, Any] = self._answer(method, path, **arguments).json()
        return value

    def _answer(self, method: str, path: str, **arguments: Any) -> Any:
        import requests

        from shared.errors import UsageError

        try:
            answer = self._session.request(method, f"{self._base}/v1/api{path}", timeout=TIMEOUT_S, **arguments)
        except requests.ConnectionError:
            raise UsageError(
                f"no gateway answers at {self._base}; start it, or give the --home of the one that runs",
                code="gateway-not-running",
            ) from None
        if answer.status_code >= 400:
            try:
                problem = answer.json()
                raise UsageError(str(problem["detail"]), code=str(problem["code"]))
            except (ValueError, KeyError):
                raise UsageError(f"the gateway answered {answer.status_code}", code="gateway-answer") from None
        return answer


def present(
    ask: Callable[[], dict[str, Any]],
    picture: Callable[[dict[str, Any]], RenderableType],
    *,
    as_json: bool,
    watch: bool = False,
) -> None:
    """Ask and show, once or until Ctrl-C. As JSON every answer is one line."""
    from rich.console import Console
    from rich.live import Live

    if as_json:
        print(json.dumps(ask()), flush=True)
        while watch and _again():
            print(json.dumps(ask()), flush=True)
        return
    console = Console()
    if not watch:
        console.print(picture(ask()))
        return
    with Live(picture(ask()), console=console, auto_refresh=False) as live:
        while _again():
            live.update(picture(ask()), refresh=True)


def done(text: str, value: dict[str, Any], *, as_json: bool) -> None:
    """Say that something was done."""
    print(json.dumps(value) if as_json else text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of plain values; text from outside is never taken for markup, and moves no cursor."""
    from rich.markup import escape
    from rich.table import Table

    from shared.wire.untrusted_text import printable

    made = Table(*columns)
    for row in rows:
        made.add_row(*("" if cell is None else escape(printable(str(cell))) for cell in row))
    return made


def ago(time_us: int | None) -> str:
    """How long ago, in the unit one would say it in."""
    if time_us is None:
        return "never"
    seconds = max(time.time() - time_us / 1e6, 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _again() -> bool:
    try:
        time.sleep(WATCH_EVERY_S)
    except KeyboardInterrupt:
        return False
    return True


def _one(found: list[dict[str, Any]], text: str, *, name: str, code: str) -> dict[str, Any]:
    from shared.errors import UsageError

    exact = [each for each in found if text in (each["name"], each[name])]
    near = exact or [each for each in found if text and str(each[name]).startswith(text.lower())]
    if len(near) != 1:
        many = f"{len(near)} fit {text!r}" if near else f"nothing fits {text!r}"
        if exact and len(near) > 1:  # names need not be unique
            raise UsageError(f"{many}; say which: {', '.join(str(each[name]) for each in near)}", code=code)
        raise UsageError(f"{many}; have: {', '.join(each['name'] for each in found) or 'none'}", code=code)
    return near[0]
