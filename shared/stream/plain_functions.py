"""Plain Python functions of one row as operator types: `@rs.function`, used by `stream.map`.

A function is called once per row with Python values, so batching cannot change its answers. What it takes and gives is
read from its annotations; plans carry its name and version, never its code. A version is a number that its author
raises with every change of meaning: a digest of the source would not do, since an app's build has no source to compare.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from shared.errors import UsageError
from shared.language.expressions import TIME
from shared.language.registry import IN, OUT, OperatorType, operator_type, parameter_defaults, register, registered
from shared.language.schema import Schema
from shared.stream.drafts import located, user_module

Plain = TypeVar("Plain", bound=Callable[..., Any])

KINDS: Mapping[object, str] = {
    bool: "bool", int: "int64", float: "float64", str: "str",
    "bool": "bool", "int": "int64", "float": "float64", "str": "str",  # as annotations of tomorrow are written
}  # fmt: skip


@overload
def function(plain: Plain, /) -> Plain: ...


@overload
def function(
    *,
    name: str | None = None,
    returns: str | Mapping[str, str] | None = None,
    version: int = 1,
    deterministic: bool = True,
) -> Callable[[Plain], Plain]: ...


@located
def function(
    plain: Plain | None = None,
    /,
    *,
    name: str | None = None,
    returns: str | Mapping[str, str] | None = None,
    version: int = 1,
    deterministic: bool = True,
) -> Plain | Callable[[Plain], Plain]:
    """Register a function of one row: `@rs.function` above `def kmh(speed: float) -> float`, then `gps.map(kmh)`.

    Its arguments are columns, by name, `time` among them; keyword-only ones are parameters. It gives one value, the
    column being called like the function, or with `returns={"column": "kind"}` a dict of several.
    """

    @located
    def registering(given: Plain) -> Plain:
        register(_type_of(given, name or given.__name__, returns, version, deterministic=deterministic))
        return given

    return registering if plain is None else registering(plain)


def _type_of(
    plain: Callable[..., object],
    name: str,
    returns: str | Mapping[str, str] | None,
    version: int,
    *,
    deterministic: bool,
) -> OperatorType:
    signature = inspect.signature(plain)
    takes: dict[str, str] = {}
    arguments: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            continue
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise UsageError(
                f"function {name!r} takes columns by name, not *{parameter.name}", code="function-arguments"
            )
        arguments.append(parameter.name)
        if parameter.name != TIME:
            takes[parameter.name] = _kind(parameter.annotation, f"{name!r} takes {parameter.name!r}")
    if returns is None:
        returns = _kind(signature.return_annotation, f"{name!r} gives something")
    gives = {name: returns} if isinstance(returns, str) else dict(returns)
    return OperatorType(
        name=name,
        form="scalar" if isinstance(returns, str) else "record",
        version=version,
        inputs=((IN, Schema.of(takes)),),
        outputs=((OUT, Schema.of(gives)),),
        implementation=plain,
        parameters=parameter_defaults(name, plain),
        deterministic=deterministic,
        arguments=tuple(arguments),
        module=user_module(),
    )


def _kind(annotation: object, what: str) -> str:
    kind = KINDS.get(annotation)
    if kind is None:
        raise UsageError(
            f"function {what}: say of which kind, like `def kmh(speed: float) -> float`; known: bool, int, float, str",
            code="function-arguments",
        )
    return kind


def function_type(given: str | Callable[..., object]) -> OperatorType:
    """The operator type of a function, by its name or itself."""
    if isinstance(given, str):
        return operator_type(given)
    for kind in registered().values():
        if kind.implementation is given:
            return kind
    label = getattr(given, "__name__", repr(given))
    raise UsageError(
        f"{label!r} is not known by name, and plans carry no code: write @rs.function above it, in a module that "
        "resurge.toml lists",
        code="operator-unknown",
    )
