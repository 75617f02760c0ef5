"""The memory of a step: a closed form over many layouts at a time.

Parameters, gradients and optimizer state as in ZeRO (Rajbhandari et al., arXiv 1910.02054, section
3), activations as in Korthikanti et al. (arXiv 2205.05198, section 4), of the rank that needs the
most: the first stage has the most micro-batches in flight, the last one the logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Flags, Floats, Longs
from steptime.cluster import Device
from steptime.predict.held import Held, held_of
from steptime.predict.kept import Block, blocks_of, ends_of, logits_of, width_of
from steptime.predict.layouts import PRECISIONS, Layouts, gathers_once
from steptime.predict.passes import tokens_of_rank
from steptime.predict.software import Software
from steptime.predict.stages import Kinds, in_flight, kinds_of
from steptime.workloads.models import Transformer

CATEGORIES = {
    "parameters": "weights, as they are kept",
    "gradients": "gradients, as they are summed",
    "optimizer": "moments and master weights",
    "activations": "what forward keeps for backward, of all micro-batches in flight",
    "logits": "logits and what the loss keeps",
    "buffers": "gathered parameters, gradients on their way, buffers of communication",
    "framework": "the context of the device, the libraries' own, and fragments",
}
"""The categories of a rank's memory, and what each is."""

_MOMENTS = 8.0  # two, in fp32
_FP32 = 4.0
_AXES = ("tensor", "context", "expert", "data", "pipeline")


@dataclass(frozen=True, eq=False, kw_only=True)
class RankMemory:
    """Bytes by category of the rank that needs the most, at its peak, each shape (layouts,).

    ``stage``: of which pipeline stage it is one. ``logged``: what the framework prints as the peak
    of its allocator, given or reserved, be it of that rank or of one of the first stage.
    """

    categories: Mapping[str, Floats]
    stage: Longs
    logged: Floats

    @property
    def total(self) -> Floats:
        """The sum of all, shape (layouts,): what the device must have."""
        return np.asarray(sum(self.categories.values()), np.float64)

    @property
    def allocated(self) -> Floats:
        """The sum of all but the framework's, (layouts,): what its allocator says that it gave."""
        return self.total - self.categories["framework"]

    def fits(self, device: Device) -> Flags:
        """Whether a device has as much, shape (layouts,)."""
        return np.asarray(self.total <= device.memory)


def memory(model: Transformer, layouts: Layouts, software: Software) -> RankMemory:
    """What the rank that needs the most keeps in each layout."""
    kinds = kinds_of(model, layouts, even=software.even_stages)
    blocks = blocks_of(model, layouts, software)
    most = RankMemory(
        categories={name: np.zeros(len(layouts)) for name in CATEGORIES},
        stage=np.zeros(len(layouts), np.int64),
        logged=np.zeros(len(layouts)),
    )
    most_is_logged = software.footprint.logs == "most"
    for stage in kinds:
        one = _of_stage(model, layouts, software, stage, blocks)
        more = stage.there & (one.total > most.total)
        prints = more & (most_is_logged | (stage.number == 0))
        most = RankMemory(
            categories={
                name: np.where(more, one.categories[name], most.categories[name])
                for name in CATEGORIES
            },
            stage=np.where(more, stage.number, most.stage),
            logged=np.where(prints, one.logged, most.logged),
        )
    return most


def _of_stage(
    model: Transformer,
    layouts: Layouts,
    software: Software,
    stage: Kinds,
    blocks: tuple[Block, Block],
) -> RankMemory:
    """What a rank of one stage of each layout keeps."""
    held, flying = held_of(model, layouts, stage), in_flight(layouts, stage.number)
    states = _states(held, layouts, software)
    dense, mixed = blocks
    kept = (stage.dense * dense.kept + stage.mixed * mixed.kept) * flying
    again = np.maximum(dense.again * (stage.dense > 0), mixed.again * (stage.mixed > 0))
    found = states | {
        "activations": kept + again + ends_of(model, layouts, stage, flying),
        "logits": logits_of(model, layouts, software, stage, flying),
        "buffers": _buffers(model, held, layouts, software, flying),
    }
    groups = sum((layouts[axis] > 1).astype(np.int64) for axis in _AXES)
    footprint = software.footprint
    framework = footprint.context_bytes + footprint.communicator_bytes * groups
    given = np.asarray(sum(found.values()))
    fragments = footprint.fragments * given
    return RankMemory(
        categories=found | {"framework": framework + fragments},
        stage=stage.number,
        logged=given + fragments * footprint.logs_reserved,
    )


def _states(held: Held, layouts: Layouts, software: Software) -> dict[str, Floats]:
    """Weights, gradients and optimizer state; ZeRO's stages shard them one after the other."""
    narrow = layouts["precision"] != PRECISIONS.index("fp32")
    alone = software.footprint.master == "alone"
    weight = np.where(narrow & (not alone), width_of(layouts), _FP32)
    state = np.where(narrow & (not alone), _MOMENTS + _FP32, _MOMENTS)
    return {
        "parameters": weight * _sharded(held, layouts, 3),
        "gradients": software.gradient_bytes * _sharded(held, layouts, 2),
        "optimizer": state * _sharded(held, layouts, 1),
    }


def _sharded(held: Held, layouts: Layouts, stage: int) -> Floats:
    """Elements of what ZeRO shards from that stage on; experts have fewer replicas."""
    sharing = np.where(layouts["zero"] >= stage, layouts["data"] * layouts["context"], 1)
    both = np.where(layouts["zero"] >= stage, layouts["expert"], 1) * sharing
    return np.asarray(held.others / both + held.experts / sharing)


def _buffers(
    model: Transformer, held: Held, layouts: Layouts, software: Software, flying: Floats
) -> Floats:
    """Gathered parameters, gradients to be reduced, and activations on their way."""
    footprint, zero = software.footprint, layouts["zero"]
    replicas = layouts["data"] * layouts["context"] * layouts["expert"]
    reduced = footprint.reduced_bytes * held.all * ((replicas > 1) & (zero < 2))
    step_long = gathers_once(layouts)
    scattered = software.gradient_bytes * np.where(step_long, held.all, held.one) * (zero >= 2)
    gathered = width_of(layouts) * np.where(step_long, held.all, held.largest) * (zero >= 3)
    streams = footprint.streams * tokens_of_rank(layouts) * model.hidden * width_of(layouts)
    return np.asarray(reduced + scattered + gathered + streams * flying + footprint.workspace_bytes)
