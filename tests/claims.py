"""What a test has shown, in numbers: the fixture `claim` in `conftest.py` takes it and says it at the end of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Claim: TypeAlias = Callable[[str], None]
