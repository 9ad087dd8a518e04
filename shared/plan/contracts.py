"""What a sink promises: how much may be lost or wrong, how late, and in what order (EC-9..EC-12).

`kept_min` is the paper's LF (1.0: nothing lost), `wrong_max` its EF (0.0: nothing wrong). `delay_us_max` bounds the
time from event to arrival, None promises nothing. `order` is "each" (within a stream, IASO) or "all" (between streams
too, IESO).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.errors import UsageError
from shared.language.durations import duration_text

ORDERS = ("each", "all")


@dataclass(frozen=True, slots=True)
class Contract:
    kept_min: float = 1.0
    wrong_max: float = 0.0
    delay_us_max: int | None = None
    order: str = "each"

    @property
    def lossless(self) -> bool:
        return self.kept_min == 1.0 and self.wrong_max == 0.0

    def describe(self) -> str:
        """In a few words, the same on every screen."""
        loss = "lossless" if self.lossless else f"at least {self.kept_min * 100:.4g} % kept"
        wrong = f", at most {self.wrong_max * 100:.4g} % wrong" if self.wrong_max else ""
        delay = "" if self.delay_us_max is None else f" within {duration_text(self.delay_us_max)}"
        return loss + wrong + delay + (", in order between streams" if self.order == "all" else "")


LOSSLESS = Contract()


def strictest(contracts: Iterable[Contract]) -> Contract:
    """One that keeps all of these."""
    given = list(contracts)
    return Contract(
        max((each.kept_min for each in given), default=0.0),
        min((each.wrong_max for each in given), default=1.0),
        min((each.delay_us_max for each in given if each.delay_us_max is not None), default=None),
        "all" if any(each.order == "all" for each in given) else "each",
    )


def check_contract(contract: Contract) -> None:
    if not (0.0 <= contract.kept_min <= 1.0 and 0.0 <= contract.wrong_max <= 1.0):
        raise UsageError("a contract's shares lie between 0 and 1", code="contract")
    if contract.delay_us_max is not None and contract.delay_us_max <= 0:
        raise UsageError("a contract's delay must be more than zero", code="contract")
    if contract.order not in ORDERS:
        raise UsageError(f"order {contract.order!r} is not one of {', '.join(ORDERS)}", code="contract")
