"""What cannot run, whatever memory there is: layouts whose parts do not divide, with the reason."""

from collections.abc import Iterator, Sequence

import numpy as np

from steptime.arrays import Flags, Longs
from steptime.predict.layouts import SCHEDULES, Layouts
from steptime.predict.software import Software
from steptime.predict.stages import pieces_of
from steptime.workloads.divide import lays_out
from steptime.workloads.models import Transformer

REASONS = {
    "": "it can run",
    "tensor": "tensor ranks do not divide the heads, the key heads or the width of the MLP",
    "sequence": "tensor ranks do not divide the tokens of a row that each context rank has",
    "context": "context ranks take two chunks each of a row, and its tokens do not divide so",
    "expert": "expert ranks do not divide the experts",
    "tokens": "a row has more tokens than the model has positions for",
    "layers": "the chunks of the stages do not divide the layers, with embedding and head or not",
    "stages": "a stage would have nothing to do",
    "interleaved": "interleaved stages take micro-batches by the number of stages",
    "chunks": "the schedule does not go with that many chunks a stage",
    "micro-batches": "its 1F1B needs as many micro-batches as stages but one",
    "zero": "it shards no gradients or parameters within a pipeline",
}
"""Why a layout cannot run; the first holds where it can."""

_NAMES = tuple(REASONS)


def cannot_run(model: Transformer, layouts: Layouts, software: Software) -> Longs:
    """The first reason why each layout cannot run, by its place in REASONS: shape (layouts,).

    0 where it can. Whether it fits in memory is another question.
    """
    found = np.zeros(len(layouts), np.int64)
    for name, wrong in _wrong(model, layouts, software):
        found = np.where((found == 0) & wrong, _NAMES.index(name), found)
    return found


def reasons_of(found: Longs) -> Sequence[str]:
    """What ``cannot_run`` found, in words; empty where a layout can run."""
    return ["" if one == 0 else REASONS[_NAMES[one]] for one in found]


def _wrong(model: Transformer, layouts: Layouts, software: Software) -> Iterator[tuple[str, Flags]]:
    tensor, context, tokens = (layouts[one] for one in ("tensor", "context", "tokens"))
    stages, chunks, runs = (layouts[one] for one in ("pipeline", "interleave", "micro_batches"))
    counts = tuple(model.split.values())
    yield "tensor", np.any([count % tensor != 0 for count in counts], axis=0)
    split = layouts["sequence_parallel"] & (tensor > 1)
    yield "sequence", split & (tokens // context % tensor != 0)
    yield "context", (context > 1) & (tokens % (2 * context) != 0)
    yield "expert", (layouts["expert"] > 1) & (model.experts % layouts["expert"] != 0)
    yield "tokens", tokens > model.context
    piped = stages > 1
    yield from _stages(model, layouts, software)
    interleaved = layouts["schedule"] == SCHEDULES.index("interleaved")
    by_groups = piped & (chunks > 1)
    yield "interleaved", by_groups & (runs % stages != 0)
    may = interleaved | (layouts["schedule"] == SCHEDULES.index("1f1b"))
    alone = (~piped & (chunks > 1)) | (piped & interleaved & (chunks == 1))
    yield "chunks", (by_groups & ~may) | alone
    ahead = layouts["schedule"] != SCHEDULES.index("gpipe")
    yield "micro-batches", software.fills_pipelines & piped & ahead & (runs < stages - 1)
    yield "zero", (not software.shards_in_pipelines) & piped & (layouts["zero"] > 1)


def _stages(
    model: Transformer, layouts: Layouts, software: Software
) -> Iterator[tuple[str, Flags]]:
    """Stages cut by blocks have as many, or one less at the ends; by cost, something to do."""
    if not software.even_stages:
        shapes, which = np.unique(layouts[["pipeline", "interleave"]], return_inverse=True)
        able = [lays_out(model.layers, int(one[0]), int(one[1])) for one in shapes]
        yield "layers", ~np.array(able, np.bool_)[which.reshape(-1)]
        return
    pieces = layouts["pipeline"] * layouts["interleave"]
    counts, which = np.unique(pieces, return_inverse=True)
    idle = [
        any(one.parts == 0 for one in pieces_of(model, int(count), even=True)) for count in counts
    ]
    yield "stages", np.array(idle, np.bool_)[which.reshape(-1)]
