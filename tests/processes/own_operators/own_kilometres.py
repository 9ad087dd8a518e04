"""Functions of the program beside it, for phones and for Spark."""

from __future__ import annotations

import resurge as rs


@rs.function
def own_kmh(speed: float) -> float:
    return round(speed * 3.6, 3)


@rs.function(returns={"pace": "str", "km": "float64"})
def own_pace(km: float, points: int) -> dict[str, object]:
    return {"pace": "fast" if points > 2 and km > 0.01 else "slow", "km": round(km, 6)}
