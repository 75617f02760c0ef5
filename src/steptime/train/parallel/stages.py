"""Stage models: the modules of one pipeline stage, with the names of the whole model."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from steptime.train.model.ends import Embedding, Head
from steptime.train.model.transformer import Block
from steptime.train.parallel.axes import Axes
from steptime.train.parallel.shard import Shard, shard_of
from steptime.workloads.mesh import EXPERT, TENSOR
from steptime.workloads.models import Tensor as TensorOfModel
from steptime.workloads.models import Transformer, Unit
from steptime.workloads.pools import Gradients, Pool
from steptime.workloads.segment import Recompute
from steptime.workloads.stage import Stage


class StageModel(nn.Module):
    """What a rank holds of a model: the units of its stage, embedding and head where it has them.

    Parameters have the names that they have in the whole model; the copy of a tied table in another
    stage is ``head.wte``. ``chunks``: the modules of each chunk, in forward order. The weights are
    not yet drawn.
    """

    def __init__(self, model: Transformer, stage: Stage, axes: Axes) -> None:
        super().__init__()
        self.config = model
        self.embedding: Embedding | None = None
        self.blocks = nn.ModuleDict()
        self.head: Head | None = None
        self.chunks = [
            [self._module(unit, axes, stage.recompute) for unit in chunk] for chunk in stage.chunks
        ]

    def units(self) -> list[nn.Module]:
        """The modules of all chunks, in their order."""
        return [unit for chunk in self.chunks for unit in chunk]

    def compile_units(self) -> None:
        """Compile each unit on its own, but the embedding: two look-ups, and nothing to fuse."""
        for unit in self.units():
            if unit is not self.embedding:
                unit.forward = torch.compile(unit.forward, dynamic=False)

    def _module(self, unit: Unit, axes: Axes, recompute: Recompute) -> nn.Module:
        if unit.name == "embedding":
            self.embedding = Embedding(self.config, axes)
            return self.embedding
        if unit.name == "head":
            copied = any(tensor.name == _TABLE for tensor in unit.tensors)
            self.head = Head(self.config, axes, holds_table=copied)
            return self.head
        number = unit.name.removeprefix("block ")
        self.blocks[number] = Block(self.config, axes, recompute=recompute)
        return self.blocks[number]


_TABLE = "embedding.wte"


def held_by_rank(
    model: Transformer, plan: Gradients, pool: Pool, axes: Axes
) -> Iterator[tuple[tuple[str, Shard], ...]]:
    """For each bucket of a pool, the name of each parameter on this rank and its part of the model.

    ``model`` has a vocabulary that the tensor-parallel ranks divide.
    """
    first = model.experts // axes.mesh.expert * axes.at[EXPERT]
    for tensors in pool.held:
        found = []
        for number, tensor, _ in tensors:
            own = _shifted(tensor, first) if tensor.expert and pool.name else tensor
            shard = shard_of(model, own, axes.mesh.tensor, axes.at[TENSOR])
            copied = own.name == _TABLE and plan.units[number].name == "head"
            found.append(("head.wte" if copied else own.name, shard))
        yield tuple(found)


def _shifted(tensor: TensorOfModel, by: int) -> TensorOfModel:
    """The tensor of the expert that is so many further: of ``experts.1.fc.weight`` by 2 is 3's."""
    unit, which = tensor.name.split(".experts.")
    number, _, rest = which.partition(".")
    return replace(tensor, name=f"{unit}.experts.{int(number) + by}.{rest}")
