"""`resurge stream`: what arrives, how far it lags, which hours are complete, and the batches themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from resurge.cli.gateway_api import DEFAULT_HOME, Api, AsJson, Home, Watch, ago, present, table

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
Stream = Annotated[str, typer.Argument(help="an edge's name or number, as `resurge stream list` shows")]
SHADES = " ░▒▓█"


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


def _batch(batch: dict[str, Any]) -> RenderableType:
    made = table(batch["columns"] or ("problem",), batch["values"] or [(batch["problem"] or "no rows",)])
    made.title = f"{batch['device'][:12]} [{batch['lo']}, {batch['hi']}), {ago(batch['received_us'])}"
    made.title_justify = "left"
    return made


def _shade(hour: dict[str, Any]) -> str:
    return "·" if hour["coverage"] is None else SHADES[round(hour["coverage"] * (len(SHADES) - 1))]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"
