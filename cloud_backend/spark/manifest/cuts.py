"""The cuts that a manifest knows: one per epoch, each where the one before ended.

A day of epochs is many cuts, and of the older ones only the place in the log matters. Those are kept as a place each,
in memory and in summaries; the same cut is made of it when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from cloud_backend.log.partitions import ONLY, Place
from cloud_backend.spark.manifest.entries import Cut


class Cuts(Mapping[int, Cut]):
    """By epoch, without gaps. Only `add`, `forget_before` and `pack` change it."""

    def __init__(self) -> None:
        self._whole: dict[int, Cut] = {}
        self._ends: dict[int, Place] = {}  # of packed ones, whose place is all that is known of them
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
        return Cut(epoch, self._end(epoch - 1), end)

    def _end(self, epoch: int) -> Place:
        return self._ends[epoch] if epoch in self._ends else self._whole[epoch].ends

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
            if not cut.left and not cut.returned:
                self._ends[epoch] = cut.ends
                del self._whole[epoch]

    # -- as JSON -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {str(epoch): cut.bounds() for epoch, cut in sorted(self._whole.items())}

    def packed_to_json(self) -> list[list[Any]]:
        """Runs of packed ones, each as its first epoch, where that starts, and how long every epoch is: numbers where
        the log is one partition, else a list of them, one for each partition in the order of the place."""
        runs: list[list[Any]] = []
        place, following = dict[str, int](), 0
        for epoch, end in sorted(self._ends.items()):
            if epoch != following:
                place = dict(self._end(epoch - 1))
                runs.append([epoch, place[ONLY] if {*place} == {ONLY} else place, []])
            sizes = [end[partition] - start for partition, start in place.items()]
            runs[-1][2].append(sizes[0] if {*place} == {ONLY} else sizes)
            place, following = {partition: end[partition] for partition in place}, epoch + 1
        return runs

    @staticmethod
    def from_json(whole: Mapping[str, Any], packed: Sequence[Sequence[Any]]) -> Cuts:
        cuts = Cuts()
        for text, cut in whole.items():
            cuts.add(Cut.from_json({"epoch": int(text), **cut}))
        for first, start, sizes in packed:
            place = dict(start) if isinstance(start, dict) else {ONLY: start}
            for epoch, size in enumerate(sizes, first):
                steps = size if isinstance(size, list) else [size]
                place = {each: at + step for (each, at), step in zip(place.items(), steps, strict=True)}
                cuts._ends[epoch] = place
        cuts.first = min((*cuts._whole, *cuts._ends), default=0)
        cuts.last = max((*cuts._whole, *cuts._ends), default=0)
        return cuts
