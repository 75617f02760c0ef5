"""Stages: which blocks of a model each stage of a pipeline holds, and what it keeps in flight.

Most stages of a pipeline are alike. Of those that are, the first keeps the most, for it runs the
most micro-batches ahead: one of each kind stands for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from steptime.arrays import Flags, Floats, Longs
from steptime.predict.layouts import SCHEDULES, Layouts
from steptime.workloads.matrices import attention_matrices, mlp_matrices
from steptime.workloads.models import Transformer, Unit


@dataclass(frozen=True)
class Piece:
    """A piece of a model: blocks from ``first`` to before ``end``, and what lies at the ends.

    ``parts``: how many units and steps of the loss are in it; a piece without any is no stage.
    """

    first: int
    end: int
    embedding: bool
    head: bool
    parts: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Kinds:
    """The first stage of each kind, each of shape (kinds, layouts); 0 where there are fewer kinds.

    ``number``: of the stage. ``dense``: its blocks that have one MLP, ``mixed``: those with
    experts. ``embedding``, ``head``: how many of them it holds. ``there``: whether there is one.
    """

    there: Flags
    number: Longs
    dense: Longs
    mixed: Longs
    embedding: Longs
    head: Longs

    def __iter__(self) -> Iterator["Kinds"]:
        """One kind after the other, each of shape (layouts,)."""
        for kind in range(len(self.there)):
            yield Kinds(**{one.name: getattr(self, one.name)[kind] for one in fields(self)})


def pieces_of(model: Transformer, count: int, *, even: bool) -> tuple[Piece, ...]:
    """A model cut into so many pieces.

    Each has as many blocks, those in the middle one more where that does not divide. ``even``: as
    nanotron's ``build_model`` does, a piece ends with the first unit with which all so far cost
    more than its part of the whole, the head counted; the last pieces may hold nothing.
    """
    if even and count > 1:
        return _by_cost(model, count)
    each, more = divmod(model.layers, count)
    start = (count - more) // 2
    ends = np.cumsum([each + (start <= number < start + more) for number in range(count)])
    return tuple(
        Piece(int(end - size), int(end), number == 0, number == count - 1)
        for number, (end, size) in enumerate(zip(ends, np.diff(ends, prepend=0), strict=True))
    )


def _by_cost(model: Transformer, count: int) -> tuple[Piece, ...]:
    head = model.vocabulary * model.hidden
    dense, mixed = (_products(model, dense=dense) for dense in (True, False))
    before = model.dense_layers if model.experts > 1 else model.layers
    blocks = [dense] * before + [mixed] * (model.layers - before)
    # The last five: norm, head, logits in fp32, loss.
    costs = np.array([0.0, *blocks, 0.0, head, 0.0, 0.0])
    so_far = np.cumsum(costs)
    piece_of = []
    piece = 0
    for cost in so_far:
        piece_of.append(piece)
        piece += bool(cost > so_far[-1] * ((piece + 1) / count))
    where = np.array(piece_of)
    held = where[1 : model.layers + 1]
    first = np.searchsorted(held, range(count), side="left")
    end = np.searchsorted(held, range(count), side="right")
    return tuple(
        Piece(int(a), int(b), n == 0, n == where[-3], int((where == n).sum()))
        for n, (a, b) in enumerate(zip(first, end, strict=True))
    )


def _products(model: Transformer, *, dense: bool) -> float:
    """Multiply-adds of a token in a block."""
    matrices = (*attention_matrices(model), *mlp_matrices(model, dense=dense))
    return float(sum(one.outputs * one.inputs * one.met for one in matrices))


def kinds_of(model: Transformer, layouts: Layouts, *, even: bool) -> Kinds:
    """The kinds of stages in each layout, cut ``even`` or into as many blocks each."""
    shapes, which = np.unique(layouts[["pipeline", "interleave"]], return_inverse=True)
    found = [_kinds(model, int(one[0]), int(one[1]), even=even) for one in shapes]
    most = max(map(len, found), default=0)
    table = np.zeros((len(found), most, len(fields(Kinds))), np.int64)
    for number, kinds in enumerate(found):
        table[number, : len(kinds)] = kinds
    of_layouts = table[which.reshape(-1)].transpose(2, 1, 0)  # (fields, kinds, layouts)
    there, *rest = of_layouts
    names = [one.name for one in fields(Kinds)][1:]
    return Kinds(there=there.astype(np.bool_), **dict(zip(names, rest, strict=True)))


def _kinds(
    model: Transformer, stages: int, chunks: int, *, even: bool
) -> list[tuple[int, int, int, int, int, int]]:
    """One row of a ``Kinds`` for each kind of stage of one pipeline."""
    pieces = pieces_of(model, stages * chunks, even=even)
    seen: dict[tuple[int, int, int, int], int] = {}
    for number in range(stages):
        own = pieces[number::stages]
        # All blocks of a model without experts are dense.
        before = model.dense_layers if model.experts > 1 else model.layers
        dense = sum(min(one.end, before) - min(one.first, before) for one in own)
        blocks = sum(one.end - one.first for one in own)
        ends = sum(one.embedding for one in own), sum(one.head for one in own)
        seen.setdefault((dense, blocks - dense, *ends), number)
    return [(1, number, *kind) for kind, number in seen.items()]


def in_flight(layouts: Layouts, stage: Longs) -> Floats:
    """The micro-batches of which a stage keeps activations at most, shape (layouts,).

    As the schedules of ``workloads.pipelines`` run; a part of one is some of a stage's chunks.
    """
    number, chunks, runs = (layouts[one] for one in ("pipeline", "interleave", "micro_batches"))
    last = number - 1 - stage
    schedule = layouts["schedule"]
    interleaved = np.minimum(2 * last + (chunks - 1) * number + 1, runs * chunks) / chunks
    most = np.where(chunks > 1, interleaved, np.minimum(last + 1, runs))
    most = np.where(schedule == SCHEDULES.index("zb-h1"), np.minimum(number, runs), most)
    return np.where(schedule == SCHEDULES.index("gpipe"), runs, most).astype(np.float64)


def block_units(model: Transformer) -> tuple[Unit, Unit]:
    """A block with one MLP and, where there are experts, one with these; else that one again."""
    blocks = model.units[1:-1]
    return blocks[0], blocks[-1]
