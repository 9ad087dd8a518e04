"""The operators an app was built with beside what every app has: `resurge app build` puts them into it, with this list.

operators.json   in the app's folder: title, version and id of the app, the modules to import, and of each operator type
                 its name, version and the digest of the code it came from
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import DamagedData
from shared.language.registry import references
from shared.stream.program import import_operators

FILE = "operators.json"
FORMAT = 1
APP = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class BundledOperator:
    name: str
    version: int
    digest: str  # of the source files it was built from

    @property
    def reference(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a build put in."""

    title: str
    version: str
    id: str
    modules: tuple[str, ...]
    operators: tuple[BundledOperator, ...]

    @property
    def build(self) -> str:
        """What a gateway calls it, so that a person knows which app to install."""
        return f"{self.title} {self.version} ({self.id})"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "title": self.title, "version": self.version, "id": self.id,
            "modules": list(self.modules),
            "operators": [
                {"name": each.name, "version": each.version, "digest": each.digest} for each in self.operators
            ],
        }  # fmt: skip

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Bundle:
        try:
            if value["format"] != FORMAT:
                raise ValueError(f"format {value['format']!r}")
            operators = [
                BundledOperator(str(each["name"]), int(each["version"]), str(each["digest"]))
                for each in value["operators"]
            ]
            about = (str(value["title"]), str(value["version"]), str(value["id"]))
            return Bundle(*about, tuple(map(str, value["modules"])), tuple(operators))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedData(
                f"the app's list of its own operators makes no sense ({error!r}); build or install it again",
                code="operator-bundle",
            ) from error


def bundle(app: Path = APP) -> Bundle | None:
    """What this app was built with; None for the app without operators of its own."""
    try:
        value = json.loads((app / FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedData(
            f"the app's list of its own operators is not JSON ({error}); build or install it again",
            code="operator-bundle",
        ) from error
    return Bundle.from_json(value if isinstance(value, dict) else {})


def import_bundled(app: Path = APP) -> Bundle | None:
    """Import them, and check that the app has what its list promises: gateways decide by it who gets a plan."""
    found = bundle(app)
    if found is None:
        return None
    import_operators(found.modules)
    missing = sorted({each.reference for each in found.operators} - references())
    if missing:
        raise DamagedData(
            f"the app was built with {', '.join(missing)}, and its modules do not bring it; build or install it again",
            code="operator-bundle",
        )
    return found
