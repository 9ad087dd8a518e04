"""Text columns as numbers: each distinct text once, and for every row which one it is.

Few devices say many rows, so a column that is read, put in order and joined costs a number a row until an engine wants
the texts themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TEXT = np.dtypes.StringDType()


@dataclass(frozen=True, slots=True)
class Coded:
    """Row i says `values[codes[i]]`."""

    values: list[str]
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: np.ndarray | slice) -> Coded:
        return Coded(self.values, self.codes[index])

    @staticmethod
    def of(column: np.ndarray) -> Coded:
        """Rows of one text usually follow each other: only the first of each run is looked at."""
        if not len(column):
            return Coded([], np.zeros(0, np.intp))
        heads = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
        numbers: dict[str, int] = {}
        codes = np.fromiter(
            (numbers.setdefault(text, len(numbers)) for text in column[heads].tolist()), np.intp, len(heads)
        )
        return Coded(list(numbers), np.repeat(codes, np.diff(heads, append=len(column))))

    @staticmethod
    def joined(parts: Sequence[Coded]) -> Coded:
        numbers: dict[str, int] = {}
        codes = [
            np.array([numbers.setdefault(text, len(numbers)) for text in part.values], np.intp)[part.codes]
            for part in parts
        ]
        return Coded(list(numbers), np.concatenate(codes))

    @staticmethod
    def decode(offsets: np.ndarray, data: bytes) -> Coded:
        """From the ends of UTF-8 texts in `data`, as int64 with a leading 0. ValueError when it is not text."""
        import pyarrow as pa

        texts = pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
        texts.validate(full=True)
        found = texts.dictionary_encode()
        return Coded(found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.intp))

    def encode(self) -> tuple[np.ndarray, bytes]:
        """The ends of the texts, with a leading 0, and their UTF-8 bytes one after the other."""
        import pyarrow as pa  # here, because whoever only hashes a key needs none of it

        encoded = [text.encode() for text in self.values]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))[self.codes]
        offsets = np.zeros(len(self) + 1, "<u4")
        offsets[1:] = np.cumsum(lengths)
        taken = pa.array(encoded, pa.large_binary()).take(pa.array(self.codes))
        return offsets, taken.buffers()[2].to_pybytes() if len(self) else b""

    def ranks(self) -> np.ndarray:
        """For each row the place of its text among all of them, in order."""
        order = sorted(range(len(self.values)), key=self.values.__getitem__)
        places = np.empty(len(order), np.intp)
        places[order] = np.arange(len(order))
        return np.take(places, self.codes)

    def column(self) -> np.ndarray:
        values = self.values
        return np.array([values[code] for code in self.codes.tolist()], TEXT)
