"""The search: the layouts of a space that fit, estimated as far as any of them could matter.

Layouts are taken in the order of their bound from below (``bound``). One whose bound is above the
slowest of the best so far, above the best of its cell (tensor × pipeline), and above that of a
layout that keeps no more memory can be neither among the best, nor the best of its cell, nor on the
front of time against memory: it is left out, and nothing that is told would be different with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Flags, Floats, Longs
from steptime.errors import UsageError
from steptime.plan.bound import least_seconds
from steptime.plan.front import Front, pareto
from steptime.predict.estimate import estimate
from steptime.predict.layouts import Layouts
from steptime.predict.machine import Machine
from steptime.predict.memory import memory
from steptime.workloads.models import Transformer

BEST = 100
"""Layouts of which the search tells for certain that none is faster."""

_FIRST, _CHUNK = 1 << 10, 1 << 14  # what is small finds good ones early, what is large is quick


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """The layouts by their ranks along tensor and pipeline, each of shape (cells,).

    ``step_s``: of the fastest that fits, infinite where none does; ``memory_bytes``: of the
    leanest; ``layouts``: how many there are.
    """

    tensor: Longs
    pipeline: Longs
    step_s: Floats
    memory_bytes: Floats
    layouts: Longs


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """What a search found: the layouts that fit and matter, the fastest first.

    ``layouts``, ``step_s`` and ``memory_bytes`` are of shape (layouts,). ``front``: the places in
    them of those that no other beats in both time and memory, from the leanest on. ``searched``
    layouts in all, of which ``fitting`` fit and ``estimated`` were estimated. ``fits``: whether any
    does; if not, these are the leanest.
    """

    layouts: Layouts
    step_s: Floats
    memory_bytes: Floats
    front: Longs
    cells: Cells
    searched: int
    fitting: int
    estimated: int
    fits: bool


def search(
    model: Transformer,
    layouts: Layouts,
    machine: Machine,
    *,
    best: int = BEST,
    told: bool = True,
    prune: bool = True,
) -> Found:
    """The fastest of the layouts of a model that fit on a machine's devices.

    The first ``best`` are the fastest of all, whether ``prune`` leaves out what cannot matter or
    not; so are, where they are to be ``told``, the best of each cell and the front. Raises
    UsageError where the devices have no rate for a precision.
    """
    kept = memory_bytes(model, layouts, machine)
    fit = np.flatnonzero(kept <= machine.device.memory)
    leanest = not fit.size
    if leanest:
        fit = np.argsort(kept, kind="stable")[:best]
        prune = False
    least = least_seconds(model, layouts[fit], machine)
    if np.isnan(least).any():
        raise UsageError(f"{machine.device.name} has no rate for a precision that is asked for")
    order = np.argsort(least, kind="stable")
    fit, least = fit[order], least[order]
    wanted = _Wanted(layouts, kept, best, told=told and not leanest)
    done, places = [np.empty(0)], [np.empty(0, np.int64)]
    for begin, end in _chunks(fit.size):
        some = fit[begin:end]
        if prune:
            some = some[wanted.may_matter(some, least[begin:end])]
        seconds = estimate(model, layouts[some], machine).step_s if some.size else np.empty(0)
        wanted.note(some, seconds)
        done.append(seconds)
        places.append(some)
    step_s, rows = np.concatenate(done), np.concatenate(places)
    # Of two as fast the leaner goes first: so the order depends on nothing else.
    first = np.lexsort((rows, kept[rows], step_s))
    if leanest:
        first = np.argsort(kept[rows], kind="stable")
    rows, step_s = rows[first], step_s[first]
    return Found(
        layouts=layouts[rows],
        step_s=step_s,
        memory_bytes=kept[rows],
        front=pareto(kept[rows], step_s),
        cells=wanted.cells(),
        searched=layouts.size,
        fitting=0 if leanest else fit.size,
        estimated=rows.size,
        fits=not leanest,
    )


def memory_bytes(model: Transformer, layouts: Layouts, machine: Machine) -> Floats:
    """What the rank that needs the most keeps in each layout, shape (layouts,)."""
    found = np.empty(layouts.size)
    for begin in range(0, layouts.size, _CHUNK):
        some = slice(begin, begin + _CHUNK)
        found[some] = memory(model, layouts[some], machine.software).total
    return found


def cells_of(layouts: Layouts) -> Longs:
    """The number of the cell of each layout: tensor × pipeline, shape (layouts,)."""
    _, tensor = np.unique(layouts["tensor"], return_inverse=True)
    stages, pipeline = np.unique(layouts["pipeline"], return_inverse=True)
    return np.asarray(tensor * stages.size + pipeline, np.int64)


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    begin, size = 0, _FIRST
    while begin < count:
        yield begin, begin + size
        begin, size = begin + size, min(2 * size, _CHUNK)


class _Wanted:
    """What a layout must beat to matter: the best so far, in all, by cell and by memory."""

    def __init__(self, layouts: Layouts, kept: Floats, best: int, *, told: bool) -> None:
        self._layouts, self._kept, self._told = layouts, kept, told
        self._cells = cells_of(layouts)
        self._fastest: Floats = np.full(best, np.inf)
        self._of_cell: Floats = np.full(int(self._cells.max(initial=-1)) + 1, np.inf)
        self._front = Front()

    def may_matter(self, places: Longs, least: Floats) -> Flags:
        """Which layouts, that take ``least`` seconds at least, could be told of at all."""
        among_best = least <= self._fastest[-1]
        if not self._told:
            return np.asarray(among_best)
        of_cell = least <= self._of_cell[self._cells[places]]
        return np.asarray(among_best | of_cell | self._front.may_join(self._kept[places], least))

    def note(self, places: Longs, seconds: Floats) -> None:
        """Take account of layouts that were estimated."""
        best = self._fastest.size
        self._fastest = np.sort(np.concatenate([self._fastest, seconds]))[:best]
        if self._told:
            np.minimum.at(self._of_cell, self._cells[places], seconds)
            self._front.add(self._kept[places], seconds)

    def cells(self) -> Cells:
        """The cells that have layouts."""
        there, first, count = np.unique(self._cells, return_index=True, return_counts=True)
        leanest = np.full(self._of_cell.size, np.inf)
        np.minimum.at(leanest, self._cells, self._kept)
        return Cells(
            tensor=self._layouts["tensor"][first],
            pipeline=self._layouts["pipeline"][first],
            step_s=self._of_cell[there],
            memory_bytes=leanest[there],
            layouts=count,
        )
