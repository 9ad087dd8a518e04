"""Loading a user's program: a Python file whose verbs describe a plan."""

from __future__ import annotations

import difflib
import sys
import tomllib
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from shared.errors import ResurgeError, UsageError
from shared.plan.graph import Plan
from shared.stream.drafts import Program, collecting, stop_collecting

SETTINGS = "resurge.toml"


def load_program(path: str | Path, *, version: int = 1) -> Plan:
    """Run a program's file and return the checked plan of everything it wrote."""
    return read_program(path).plan(version=version)


def read_program(path: str | Path, modules: Sequence[str] = ()) -> Program:
    """Run a program's file and return what it wrote, callbacks included. These operator modules, and those that the
    `resurge.toml` beside it lists, are imported first; they may be files beside it."""
    file = Path(path)
    try:
        code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
    except OSError as error:
        raise UsageError(f"cannot read the program {str(path)!r}: {error.strerror}", code="program-file") from None
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"the program {file.name!r} is not Python: {error}", code="program-syntax") from None
    program = Program(name=file.stem)
    module = ModuleType("program")  # a fresh namespace each time; never "__main__", so guards stay shut
    module.__file__ = str(file)
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    token = collecting(program)
    try:
        program.modules = tuple(dict.fromkeys((*modules, *listed_operators(file.resolve().parent))))
        import_operators(program.modules)
        exec(code, module.__dict__)  # noqa: S102  # it is the user's own program, run where the user asked
    except ResurgeError:
        raise
    except Exception as error:
        raise _failed(error, file, module.__dict__) from error
    finally:
        stop_collecting(token)
        sys.path.remove(folder)
    return program


def _failed(error: Exception, file: Path, names: Iterable[str]) -> UsageError:
    """The program's own line, what it says, and what Python says to it. `names` are those that the program has."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    line = f" in line {own[-1].lineno}  `{own[-1].line}`" if own else ""
    known = names if isinstance(error, NameError) else dir(error.obj) if isinstance(error, AttributeError) else ()
    wanted = getattr(error, "name", None)
    near = difflib.get_close_matches(wanted, known, n=1) if isinstance(wanted, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(
        f"the program {file.name!r} failed{line}: {type(error).__name__}: {error}{hint}", code="program-failed"
    )


def load_operators(folder: Path) -> None:
    """Import the operator modules that a folder's `resurge.toml` lists."""
    import_operators(listed_operators(folder))


def listed_operators(folder: Path) -> tuple[str, ...]:
    """The names that a folder's `resurge.toml` lists under [operators] modules."""
    section = _settings(folder).get("operators", {})
    modules = section.get("modules", []) if isinstance(section, dict) else None
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise UsageError(f'{SETTINGS}: expected [operators] modules = ["my_operators"]', code="settings-toml")
    return tuple(modules)


def import_operators(modules: Sequence[str]) -> None:
    """Import operator modules: what they register is known from here on."""
    for name in modules:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the operator module {name!r} is wanted, but {error.name!r} cannot be imported; install it, or put "
                "its file beside the program",
                code="operator-module",
            ) from None


def rollback_settings(folder: Path) -> dict[str, float]:
    """`hours` and `gigabytes` of [rollback] in a folder's `resurge.toml`, as far as they are given."""
    section = _settings(folder).get("rollback", {})
    known = isinstance(section, dict) and section.keys() <= {"hours", "gigabytes"}
    if not known or not all(type(each) in (int, float) and each >= 0 for each in section.values()):
        raise UsageError(f"{SETTINGS}: expected [rollback] hours = 24 and gigabytes = 8", code="settings-toml")
    return {name: float(each) for name, each in section.items()}


def _settings(folder: Path) -> dict[str, Any]:
    settings = folder / SETTINGS
    if not settings.is_file():
        return {}
    try:
        return tomllib.loads(settings.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{SETTINGS} is not TOML: {error}", code="settings-toml") from None
