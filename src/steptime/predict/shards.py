"""Shards: the parameters that a rank holds, updates and reduces, for many layouts."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats
from steptime.predict.layouts import Layouts
from steptime.workloads.models import Transformer


@dataclass(frozen=True, eq=False, kw_only=True)
class Shards:
    """Parameters of the rank that holds the most, each of shape (layouts,).

    ``block``: of one block; ``held``: all that it computes with; ``updated``: those
    whose optimizer state it has.
    """

    block: Floats
    held: Floats
    updated: Floats


def shards_of(model: Transformer, layouts: Layouts) -> Shards:
    """What a rank of the stage with the head holds of a model in each layout."""
    blocks = model.units[1:-1]
    experts = sum(t.size for unit in blocks for t in unit.tensors if t.expert)
    dense = sum(unit.parameters for unit in blocks) - experts
    share = layouts["tensor"] * layouts["pipeline"]
    own_experts = experts / (share * layouts["expert"])
    table = model.vocabulary * model.hidden / layouts["tensor"]
    tables = np.where(layouts["pipeline"] > 1, 1, 1 if model.architecture.tied else 2)
    held = dense / share + own_experts + table * tables
    replicas = layouts["data"] * layouts["context"]
    among = np.where(layouts["zero"] > 0, replicas, 1)
    of_experts = own_experts / among
    of_others = (held - own_experts) / np.where(among > 1, among * layouts["expert"], 1)
    return Shards(
        block=np.asarray((dense / share + own_experts) / (model.layers / layouts["pipeline"])),
        held=np.asarray(held),
        updated=np.asarray(of_experts + of_others),
    )
