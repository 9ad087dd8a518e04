"""The cuts that a manifest knows: one per epoch, each where the one before ended.

A day of epochs is many cuts, and of the older ones only the place in the log matters. Those are kept as a number each,
in memory and in summaries; the same cut is made of it when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cloud_backend.spark.manifest.entries import Cut

PARTITION = "0"


class Cuts(Mapping[int, Cut]):
    """By epoch, without gaps. Only `add`, `forget_before` and `pack` change it."""

    def __init__(self) -> None:
        self._whole: dict[int, Cut] = {}
        self._ends: dict[int, int] = {}  # of packed ones, whose place is all that is known of them
        self.first = 0  # epoch; 0 without any
        self.last = 0

    def add(self, cut: Cut) -> None:
        self._whole[cut.epoch] = cut
        self.first = self.first or cut.epoch
        self.last = max(self.last, cut.epoch)

    def __getitem__(self, epoch: int) -> Cut:
        if epoch in self._whole:
            return self._whole[epoch]
        end = self._ends[epoch]
        return Cut(epoch, {PARTITION: self._end(epoch - 1)}, {PARTITION: end})

    def _end(self, epoch: int) -> int:
        return self._ends[epoch] if epoch in self._ends else self._whole[epoch].ends[PARTITION]

    def __contains__(self, epoch: object) -> bool:
        return epoch in self._whole or epoch in self._ends

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*self._whole, *self._ends}))

    def __len__(self) -> int:
        return len(self._whole) + len(self._ends)

    def forget_before(self, epoch: int) -> None:
        """Forget what came before an epoch; the last one always stays."""
        epoch = min(epoch, self.last)
        if epoch <= self.first:
            return
        self._whole[epoch] = self[epoch]  # its start was where the one before ended
        self._ends.pop(epoch, None)
        for each in range(self.first, epoch):
            self._whole.pop(each, None)
            self._ends.pop(each, None)
        self.first = epoch

    def pack(self, before: int, spare: Collection[int]) -> None:
        """Keep only the place of cuts before an epoch, except these, and those that say who left or came back."""
        for epoch in [each for each in self._whole if self.first < each < before and each not in spare]:
            cut = self._whole[epoch]
            if not cut.left and not cut.returned and set(cut.ends) == {PARTITION}:
                self._ends[epoch] = cut.ends[PARTITION]
                del self._whole[epoch]

    # -- as JSON -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {str(epoch): cut.bounds() for epoch, cut in sorted(self._whole.items())}

    def packed_to_json(self) -> list[list[Any]]:
        """Runs of packed ones, each as its first epoch, where that starts, and the bytes of every epoch."""
        runs: list[list[Any]] = []
        place, following = 0, 0
        for epoch, end in sorted(self._ends.items()):
            if epoch != following:
                place = self._end(epoch - 1)
                runs.append([epoch, place, []])
            runs[-1][2].append(end - place)
            place, following = end, epoch + 1
        return runs

    @staticmethod
    def from_json(whole: Mapping[str, Any], packed: Sequence[Sequence[Any]]) -> Cuts:
        cuts = Cuts()
        for text, cut in whole.items():
            cuts.add(Cut.from_json({"epoch": int(text), **cut}))
        for first, start, sizes in packed:
            place = start
            for epoch, size in enumerate(sizes, first):
                place += size
                cuts._ends[epoch] = place
        cuts.first = min((*cuts._whole, *cuts._ends), default=0)
        cuts.last = max((*cuts._whole, *cuts._ends), default=0)
        return cuts
