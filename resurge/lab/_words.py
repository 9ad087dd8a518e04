"""The texts of Sonora's Table 2: words drawn by how often an English novel uses them."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resurge.bench._recordings import directory


class Words:
    """An English novel's words and how often each is used; a law of the same shape where the novel's are not here."""

    def __init__(self) -> None:
        place = directory()
        path = place / "words" / "word_freq.csv" if place else None
        if path is not None and path.is_file():
            with path.open(newline="") as file:
                counted = [(row["word"], float(row["count"])) for row in csv.DictReader(file)]
            self.source = "a novel's (recordings: words/word_freq.csv)"
        else:
            counted = [(f"word{rank}", 1 / (rank + 2.7) ** 1.05) for rank in range(1, 5059)]
            self.source = "1 / (rank + 2.7) ** 1.05, in place of a novel's"
        self.texts = pa.array([word for word, _ in counted])
        shares = np.array([count for _, count in counted])
        self.shares = shares / shares.sum()
        self._until = np.cumsum(self.shares)
        self.length = float(sum(share * len(word) for (word, _), share in zip(counted, self.shares, strict=True)))

    def texts_of(self, size: int) -> int:
        """How many texts are this many bytes: 5 to 20 words each, a space between two."""
        return int(size / (12.5 * (self.length + 1) - 1))

    def draw(self, random: np.random.Generator, count: int) -> tuple[pa.Array, int]:
        """That many texts, and how many words they have."""
        ends = np.concatenate(([0], np.cumsum(random.integers(5, 21, count)))).astype(np.int32)
        words = self.texts.take(pa.array(self.places(random, int(ends[-1]))))
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), words), " "), int(ends[-1])

    def places(self, random: np.random.Generator, count: int) -> np.ndarray:
        """That many words, each by its place in `texts`."""
        drawn = np.searchsorted(self._until, random.random(count))
        return np.minimum(drawn, len(self.texts) - 1)
