"""Records in WFDB format, written here byte by byte as the format says."""

import numpy as np
import pytest

from mobile_app.sensors.file_formats import load
from shared.errors import UsageError


def packed(values):
    """Format 212: two samples of twelve bits in three bytes."""
    pairs = np.array(values, dtype=np.int64).reshape(-1, 2) & 0xFFF
    return b"".join(bytes([a & 255, a >> 8 | (b >> 8) << 4, b & 255]) for a, b in pairs.tolist())


def record(folder, header, data):
    (folder / "r.hea").write_text(header)
    (folder / "r.dat").write_bytes(data)
    return folder / "r.hea"


def test_two_signals_of_twelve_bits(tmp_path):
    path = record(
        tmp_path,
        "r 2 360 3\nr.dat 212 200 11 1024 0 0 0 MLII\nr.dat 212 100(10)/mV 11 1024 0 0 0 V5\n# words\n",
        packed([1024, 10, 1224, 110, -2048, -90]),
    )
    track = load(path)
    assert track.time_us.tolist() == [0, 2778, 5556]
    np.testing.assert_array_equal(track.columns["mv"], [0.0, 1.0, np.nan])
    assert track.columns["mv_2"].tolist() == [0.0, 1.0, -1.0]


def test_sixteen_bits_and_a_last_row_that_is_cut_short(tmp_path):
    data = np.array([0, 100, -100], dtype="<i2").tobytes() + b"\x01"
    track = load(record(tmp_path, "r 1 250\nr.dat 16 100\n", data))
    assert track.columns["mv"].tolist() == [0.0, 1.0, -1.0]
    assert track.time_us.tolist() == [0, 4000, 8000]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("\n", "names the record"),
        ("r/3 2 360\n", "names the record"),
        ("r 2 360\nr.dat 212 200\n", "names the record"),
        ("r 1 nan\nr.dat 212\n", "names the record"),
        ("r 1 360\nr.dat 310 200\n", "expected 212 or 16"),
        ("r 2 360\nr.dat 212\nq.dat 212\n", "one file"),
        ("r 1 360\n../missing.dat 16 200\n", "missing.dat"),
    ],
)
def test_a_header_that_cannot_be_followed_is_refused(tmp_path, header, text):
    with pytest.raises(UsageError, match=text) as refused:
        load(record(tmp_path, header, b"\0\0\0"))
    assert refused.value.code == "recording-format"
