"""Records in PhysioNet's WFDB format: a header `NAME.hea` and its samples `NAME.dat`, in format 212 or 16.

The first signal is the column `mv`, in the header's unit (mV for an electrocardiogram); others are `mv_2`, `mv_3`. A
sample that the record marks as missing is NaN. The date of a record is not read: it starts at 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIGNALS_MAX = 32
HERTZ_MIN = 1e-6
TIME_US_MAX = 1 << 62
DATA_BYTES_MAX = 256 * 1024 * 1024
MISSING = {212: -2048, 16: -32768}


def read_record(header: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Event times in microseconds, and columns. Raises ValueError, or OSError for a missing file."""
    lines = [line.split() for line in header.read_text(encoding="latin-1").splitlines() if line and line[0] != "#"]
    name, count, rate, *_ = lines[0] if lines and len(lines[0]) >= 3 else ["", "0", ""]
    signals = int(count) if count.isdigit() else 0
    hertz = float(rate.split("/")[0].split("(")[0] or 0)
    if "/" in name or not 1 <= signals <= SIGNALS_MAX or len(lines) <= signals or not HERTZ_MIN <= hertz <= 1e6:
        raise ValueError("a header names the record, its signals (one line each) and its rate")
    described = [_signal(line) for line in lines[1 : 1 + signals]]
    if len({(file, form) for file, form, _, _ in described}) != 1:
        raise ValueError("all signals of a record must be in one file and one format")
    file, form, _, _ = described[0]
    samples = _samples(header.parent / Path(file).name, form, signals)
    columns = {}
    for number, (_, _, gain, zero) in enumerate(described):
        raw = samples[:, number]
        values = np.where(raw == MISSING[form], np.nan, (raw - zero) / gain)
        columns["mv" if number == 0 else f"mv_{number + 1}"] = values
    if len(samples) * 1e6 / hertz >= TIME_US_MAX:
        raise ValueError("at this rate its samples reach beyond any date")
    return np.round(np.arange(len(samples)) * (1e6 / hertz)).astype(np.int64), columns


def _signal(fields: list[str]) -> tuple[str, int, float, float]:
    """File, format, gain and the raw value of zero of one signal's line."""
    if len(fields) < 2 or not fields[1].isdigit() or int(fields[1]) not in MISSING:
        raise ValueError(f"a signal in format {fields[1][:20] if len(fields) > 1 else '(none)'!r}; expected 212 or 16")
    gain, _, zero = (fields[2] if len(fields) > 2 else "200").split("/")[0].partition("(")
    offset = zero.rstrip(")") or (fields[4] if len(fields) > 4 else "0")
    return fields[0], int(fields[1]), float(gain) or 200.0, float(offset)


def _samples(path: Path, form: int, signals: int) -> np.ndarray:
    """One row per moment. A last row that is cut short is left out."""
    if path.stat().st_size > DATA_BYTES_MAX:
        raise ValueError(f"{path.name!r} has more than {DATA_BYTES_MAX} bytes; cut it into parts")
    data = path.read_bytes()
    if form == 16:
        flat = np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.int32)
    else:
        pairs = np.frombuffer(data[: len(data) // 3 * 3], dtype=np.uint8).reshape(-1, 3).astype(np.int32)
        flat = np.empty(2 * len(pairs), dtype=np.int32)
        flat[0::2] = pairs[:, 0] | (pairs[:, 1] & 15) << 8
        flat[1::2] = pairs[:, 2] | (pairs[:, 1] >> 4) << 8
        flat -= (flat > 2047) * 4096  # twelve bits, the highest one is the sign
    return flat[: len(flat) // signals * signals].reshape(-1, signals)
