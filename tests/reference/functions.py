"""Plain functions of one row that random programs map: registered for streams, and called as they are by the reference."""

from __future__ import annotations

import resurge as rs


@rs.function(name="reference_pace")
def pace(v: float, n: int) -> str:
    return "none" if v != v else "fast" if v > n else "slow"


@rs.function(name="reference_parts", returns={"early": "bool", "part": "int64"})
def parts(time: int, w: str, *, size: int = 2) -> dict[str, object]:
    return {"early": time < 0, "part": len(w) // size}
