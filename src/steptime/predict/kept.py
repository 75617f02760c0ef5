"""Kept: bytes that a rank keeps of a micro-batch for backward, for many layouts.

As Korthikanti et al. (arXiv 2205.05198, section 4), of any width of the MLP and any number of key
heads, without dropout's masks where a model has none, and with what a framework writes beside that.
"""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.predict.held import vocabulary_of_rank
from steptime.predict.layouts import PRECISIONS, RECOMPUTES, Layouts
from steptime.predict.passes import tokens_held, tokens_of_rank
from steptime.predict.software import Software
from steptime.predict.stages import Kinds, block_units
from steptime.workloads.kept import kept_of_token
from steptime.workloads.models import Transformer, Unit

_GATHERED = 2  # inputs of the hidden width: what follows a norm


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """Bytes of a block: ``kept`` of a micro-batch, and ``again`` while it is recomputed."""

    kept: Floats
    again: Floats


def width_of(layouts: Layouts) -> Longs:
    """Bytes of an activation: fp32 has 4, all others are kept in 16 bits."""
    return np.where(layouts["precision"] == PRECISIONS.index("fp32"), 4, 2)


def blocks_of(model: Transformer, layouts: Layouts, software: Software) -> tuple[Block, Block]:
    """A block with one MLP, and one with experts."""
    dense, mixed = block_units(model)
    return _block(model, dense, layouts, software), _block(model, mixed, layouts, software)


def _block(model: Transformer, unit: Unit, layouts: Layouts, software: Software) -> Block:
    beside, scores = _beside_scores(model, unit, layouts, software), _scores(model, layouts)
    scores = scores * (software.attention == "unfused")
    inputs = tokens_held(layouts) * model.hidden * width_of(layouts)
    kind = layouts["recompute"]
    some = beside * software.footprint.selective_keeps
    kept = np.where(kind == RECOMPUTES.index("selective"), some, beside + scores)
    kept = np.where(kind == RECOMPUTES.index("full"), inputs, kept)
    return Block(kept=kept, again=beside + scores - kept)


def _beside_scores(model: Transformer, unit: Unit, layouts: Layouts, software: Software) -> Floats:
    """Inputs of norms and products; tensor ranks divide those within a half of the block."""
    width, hidden = width_of(layouts), model.hidden
    footprint, tensor = software.footprint, layouts["tensor"]
    tokens, held = tokens_of_rank(layouts), tokens_held(layouts)
    each = kept_of_token(model, unit)
    split = each.split + footprint.copies * hidden
    keeps = {"never": False, "alone": layouts["pipeline"] == 1, "always": True}
    gathered = _GATHERED * hidden * (tokens - held) * keeps[footprint.gathered]
    row_tokens, context = layouts["rows"] * layouts["tokens"], layouts["context"]
    others_keys = row_tokens * model.kv_width / tensor * (context - 1) / context
    return np.asarray(
        held * (width * each.whole + each.mask_bytes)
        + (tokens * (split / tensor + each.routed) + gathered + others_keys) * width
    )


def _scores(model: Transformer, layouts: Layouts) -> Floats:
    """Attention's scores: of every head, for each token and each token it attends to.

    The average of all blocks, where some have a window and others none.
    """
    width, tokens = width_of(layouts), tokens_of_rank(layouts)
    each = 2 * width + 1 if model.architecture.dropout else width
    every = layouts["tokens"]
    windowed = np.minimum(every, model.window or every)
    seen = model.windowed * windowed + (1 - model.windowed) * every
    return np.asarray(tokens * seen * model.heads * each / layouts["tensor"])


def ends_of(model: Transformer, layouts: Layouts, stage: Kinds, flying: Floats) -> Floats:
    """The masks behind the embedding, and the inputs of the last norm and of the head.

    Of a stage of several chunks the first one is ahead the furthest, and the last one never.
    """
    each, runs = tokens_held(layouts) * model.hidden, layouts["micro_batches"]
    chunks = layouts["interleave"] > 1
    first = np.where(chunks, np.minimum(runs, 2 * layouts["pipeline"] - 1), flying)
    last = np.where(chunks, 1.0, flying)
    masks = model.architecture.dropout * stage.embedding * first
    return np.asarray(each * (masks + 2 * width_of(layouts) * stage.head * last))


def logits_of(
    model: Transformer, layouts: Layouts, software: Software, stage: Kinds, flying: Floats
) -> Floats:
    """Logits and what the loss keeps: of each micro-batch in flight, and of the one at work."""
    flying = np.where(layouts["interleave"] > 1, 1.0, flying)
    words = tokens_of_rank(layouts) * vocabulary_of_rank(model, layouts) * stage.head
    stays = software.footprint.logit_kept_bytes
    return np.asarray(words * (stays * flying + software.footprint.logit_bytes - stays))
