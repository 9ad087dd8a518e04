"""`resurge stream`: what arrives, how far it lags, which hours are complete, and the batches themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Stream = Annotated[str, typer.Argument(help="an edge's name or number, as `resurge stream list` shows")]
SHADES = " ░▒▓█"
NODE_HOME = Path("~/.resurge")


@app.command("list")
def list_streams(home: Home = DEFAULT_HOME, watch: Watch = False, as_json: AsJson = False) -> None:
    """Every edge: rate, lag, elements, what was given up."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        columns = ("stream", "edge", "devices", "elements", "ledgered", "per second", "lag", "last heard")
        return table(
            columns,
            (
                (
                    each["name"], each["edge"], each["devices"], f"{each['elements']:,}", f"{each['ledgered']:,}",
                    f"{each['elements_per_s']:.1f}", _seconds(each["lag_s"]), ago(each["received_us"]),
                )
                for each in value["streams"]
            ),
        )  # fmt: skip

    present(lambda: api.get("/streams"), picture, as_json=as_json, watch=watch)


@app.command()
def show(
    stream: Stream,
    home: Home = DEFAULT_HOME,
    hours: Annotated[int, typer.Option(min=1, max=48, help="how far back")] = 24,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """One edge: each device's lag, and which of the last hours are complete."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        return table(
            ("device", "incarnation", "elements", "lag", f"complete, last {hours} h"),
            (
                (
                    each["name"] or each["device"], each["incarnation"], f"{each['high_water']:,}",
                    _seconds(each["lag_s"]), "".join(map(_shade, each["hours"])),
                )
                for each in value["devices"]
            ),
        )  # fmt: skip

    present(
        lambda: api.get(f"/streams/{api.stream(stream)['edge']}", hours=hours), picture, as_json=as_json, watch=watch
    )


@app.command()
def batches(
    stream: Stream,
    home: Home = DEFAULT_HOME,
    device: Annotated[str, typer.Option(help="only of this device: name, id, or the start of its id")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100, help="how many, newest first")] = 3,
    as_json: AsJson = False,
) -> None:
    """Its newest batches, decoded."""
    api = Api(home)

    def picture(value: dict[str, Any]) -> RenderableType:
        from rich.console import Group

        return Group(*(_batch(each) for each in value["batches"]))

    of_device = api.device(device)["device"] if device else ""
    address = f"/streams/{api.stream(stream)['edge']}/batches"
    present(lambda: api.get(address, device=of_device, limit=limit), picture, as_json=as_json)


@app.command()
def advise(
    node: Annotated[Path, typer.Option(help="the home of a node", envvar="RESURGE_NODE_HOME")] = NODE_HOME,
    gateway: Annotated[
        Path | None, typer.Option(help="the home of a gateway: say it of a device as that told the gateway")
    ] = None,
    device: Annotated[str, typer.Option(help="with --gateway: its name, its id, or the start of its id")] = "",
    outage: Annotated[
        list[str] | None, typer.Option(help="what an outage of this length would lose, like 30m; may be repeated")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How large a device's buffer should be: from how fast its streams fill it and how long its gateway was gone."""
    import json

    from mobile_app.screens.words.advice_text import OTHERS, advice_in, advice_line, loss_words
    from mobile_app.screens.words.number_text import duration, size
    from shared.language.durations import microseconds

    found = _told_advice(gateway, device) if gateway is not None or device else _measured_advice(node)
    fleet = found.pop("fleet", None)
    advice = advice_in(found)
    lengths = {text: microseconds(text) / 1e6 for text in outage or ()}
    lengths |= {f"p{share}": each for share, each in ((95, advice.p95_s), (99, advice.p99_s)) if each is not None}
    if as_json:
        fed = {} if fleet is None else {"fleet": fleet}
        print(
            json.dumps(
                found | fed | {"loss_at": {name: advice.loss_at(length_s) for name, length_s in lengths.items()}}
            )
        )
        return
    for name, rate in sorted(advice.rates.items(), key=lambda each: -each[1]):
        print(f"{name}  {size(rate)}/s behind the device's operators")
    print(f"buffer  {size(advice.capacity_bytes)}. {advice_line(found)}")
    for share, length_s, wanted in ((95, advice.p95_s, advice.p95_bytes), (99, advice.p99_s, advice.p99_bytes)):
        if length_s is not None and wanted is not None:
            print(f"{share} of 100 outages ended within {duration(length_s)}: {size(wanted)} hold that")
    for name, length_s in lengths.items():
        print(f"an outage of {duration(length_s)} ({name}) would {loss_words(advice.loss_at(length_s))}")
    if advice.lost_share is not None:
        print(f"all {advice.outages} outages that were seen together would {loss_words(advice.lost_share)}")
    if fleet is not None:
        own = advice_in(fleet)
        for name, rate in sorted(own.rates.items(), key=lambda each: -each[1]):
            print(f"{name}  {size(rate)}/s to other nodes")
        print(f"buffer for other nodes  {size(own.capacity_bytes)}. {advice_line(fleet, OTHERS)}")


def _measured_advice(node: Path) -> dict[str, Any]:
    """As the node of a home measures it."""
    from mobile_app.service.inspection import inspect
    from shared.errors import UsageError

    view = inspect(node.expanduser())
    if "advice" not in view:
        raise UsageError("the node that ran here last did not measure it; start it again", code="home-empty")
    fleet = view.get("fleet_buffer")
    return dict(view["advice"]) | ({} if fleet is None else {"fleet": dict(fleet["advice"])})


def _told_advice(gateway: Path | None, device: str) -> dict[str, Any]:
    """As a device last told its gateway."""
    from shared.errors import UsageError

    if not device:
        raise UsageError("of which device? name one with --device", code="device-not-found")
    api = Api(gateway or DEFAULT_HOME)
    found = api.get(f"/devices/{api.device(device)['device']}")
    if found["advice"] is None:
        raise UsageError(f"{found['name']} has not said how fast its buffer fills", code="advice-unknown")
    return dict(found["advice"])


def _batch(batch: dict[str, Any]) -> RenderableType:
    made = table(batch["columns"] or ("problem",), batch["values"] or [(batch["problem"] or "no rows",)])
    made.title = f"{batch['device'][:12]} [{batch['lo']}, {batch['hi']}), {ago(batch['received_us'])}"
    made.title_justify = "left"
    return made


def _shade(hour: dict[str, Any]) -> str:
    return "·" if hour["coverage"] is None else SHADES[round(hour["coverage"] * (len(SHADES) - 1))]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"
