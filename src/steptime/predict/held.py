"""Held: the elements of parameters that a rank of a stage holds, for many layouts."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.predict.layouts import Layouts
from steptime.predict.stages import Kinds, block_units
from steptime.workloads.models import Transformer, Unit

_VOCABULARY_MULTIPLE = 128  # Megatron-LM pads what each tensor rank has of it to that


@dataclass(frozen=True, eq=False, kw_only=True)
class Held:
    """Parameters of a rank, each of shape (layouts,).

    ``experts``: those of experts that ranks along expert divide, which fewer replicas share;
    ``others``: all others. ``largest``: of the two largest units together, ``one`` of the largest.
    """

    others: Floats
    experts: Floats
    largest: Floats
    one: Floats

    @property
    def all(self) -> Floats:
        """All of them."""
        return self.others + self.experts


@dataclass(frozen=True, eq=False, kw_only=True)
class _Unit:
    """The elements of a unit on a rank: shape (layouts,)."""

    others: Floats
    experts: Floats

    @property
    def all(self) -> Floats:
        return self.others + self.experts


def vocabulary_of_rank(model: Transformer, layouts: Layouts) -> Longs:
    """Words of the vocabulary that each tensor rank has, padding included."""
    multiple = _VOCABULARY_MULTIPLE * layouts["tensor"]
    return np.asarray(-(-model.vocabulary // multiple) * _VOCABULARY_MULTIPLE)


def held_of(model: Transformer, layouts: Layouts, stage: Kinds) -> Held:
    """What a rank of one stage of each layout holds."""
    dense, mixed = (_unit(unit, layouts) for unit in block_units(model))
    first, last = _embedding(model, layouts), _head(model, layouts, stage)
    counts = [(dense, stage.dense), (mixed, stage.mixed)]
    counts += [(first, stage.embedding), (last, stage.head)]
    others = sum(unit.others * count for unit, count in counts)
    experts = sum(unit.experts * count for unit, count in counts)
    sizes = [unit.all * (count > 0) for unit, count in counts]
    sizes += [unit.all * (count > 1) for unit, count in counts[:2]]
    ordered = np.sort(sizes, axis=0)
    return Held(
        others=np.asarray(others),
        experts=np.asarray(experts),
        largest=ordered[-2:].sum(axis=0),
        one=ordered[-1],
    )


def _unit(unit: Unit, layouts: Layouts) -> _Unit:
    """A block: experts are spread where there are ranks along expert."""
    split = sum(t.size for t in unit.tensors if t.split and not t.expert)
    whole = sum(t.size for t in unit.tensors if not t.split and not t.expert)
    split_experts = sum(t.size for t in unit.tensors if t.split and t.expert)
    whole_experts = sum(t.size for t in unit.tensors if not t.split and t.expert)
    tensor, expert = layouts["tensor"], layouts["expert"]
    experts = (split_experts / tensor + whole_experts) / expert
    alone = np.where(expert > 1, 0.0, experts)
    return _Unit(others=split / tensor + whole + alone, experts=experts - alone)


def _embedding(model: Transformer, layouts: Layouts) -> _Unit:
    whole = sum(t.size for t in model.units[0].tensors if not t.split)
    return _Unit(others=_table(model, layouts) + whole, experts=np.zeros(len(layouts)))


def _head(model: Transformer, layouts: Layouts, stage: Kinds) -> _Unit:
    """The head: a table of its own, or a copy where the tied one is on another stage."""
    whole = sum(t.size for t in model.units[-1].tensors if not t.split)
    shares = model.architecture.tied * (stage.embedding > 0)
    others = _table(model, layouts) * (1 - shares) + whole
    return _Unit(others=np.asarray(others), experts=np.zeros(len(layouts)))


def _table(model: Transformer, layouts: Layouts) -> Floats:
    return np.asarray(vocabulary_of_rank(model, layouts) * model.hidden, np.float64)
