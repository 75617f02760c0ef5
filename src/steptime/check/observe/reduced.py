"""Reduced: what a process has reduced since the last step of its optimizer, and whose gradients."""

import sys
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

import torch

from steptime.check.observe.buffers import Storage, memory_of
from steptime.check.observe.functions import within_function
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.tensors import is_followed

_MOST_REMEMBERED = 10_000
_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
_SENDING = ("send", "recv")
_EXCHANGING = ("all_to_all", "scatter")  # by scatters torch's own differentiable one does on gloo
_SPLITTING = ("all_reduce", "all_gather", "reduce_scatter", *_EXCHANGING)
_SHARING = ("all_gather", "recv", "send", *_EXCHANGING)
_FSDP, _DEEPEST = "/distributed/fsdp/", 16
_LEAST_VECTOR = 8
"""A vector of fewer elements may be anything: metrics are summed up, too."""


class _ByHand(NamedTuple):
    """What was reduced, of how many ``elements``, among which ranks.

    ``later``: outside of any backward.
    """

    storage: Storage
    elements: int
    ranks: tuple[int, ...]
    later: bool


class Reduced:
    """The reductions of this process: ``calls`` of them and ``nbytes`` in all, of any tensors.

    Which tensors is remembered until ``clear``, of what is reduced among all ranks of a group.
    ``shares``: a call was made by which ranks may have parts of a model of their own, other than
    those by which ``fully_shard`` gathers parameters. ``splits_layers``: in a backward, without DDP
    or ``fully_shard``, as where ranks share each layer; ``splitting``: the kinds of calls by which
    they do in forwards, until the first step; ``returning``: those in backwards. ``sums``: a vector
    was reduced.
    """

    def __init__(self, models: Models) -> None:
        self.calls = self.nbytes = 0
        self.shares = self.splits_layers = False
        self.splitting: set[str] = set()
        self.returning: set[str] = set()
        self.sums = self._sends = self._exchanges = self._has_stepped = False
        self._models = models
        self._rounds: dict[tuple[type, tuple[int, ...]], set[str]] = {}
        self._by_hand: dict[int, _ByHand] = {}
        self._to_one: dict[int, tuple[Storage, int]] = {}
        self._vectors: dict[tuple[torch.dtype, int], tuple[int, tuple[int, ...]]] = {}
        self._in_backward: Counter[tuple[int, ...]] = Counter()

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if moved.kind in _SENDING and not self._sends:
            self._send(moved)
        self._exchanges |= moved.kind in _EXCHANGING and not self._models.in_backward
        if self._models.in_backward and not (self._models.known or self.splits_layers):
            self.splits_layers = moved.kind in _SPLITTING and not is_of_shards()
        if self._models.in_backward and not self._has_stepped:
            self.returning.add(moved.kind)
        of_script = not (self._has_stepped or self._models.in_backward or self._models.known)
        if of_script and moved.kind in _SPLITTING and _is_differentiated(moved):
            self.splitting.add(moved.kind)
        if moved.kind == "reduce" or self._to_one:
            self._follow(moved)
        if moved.kind not in _REDUCING:
            shares = moved.kind in _SHARING and not self._models.wrapping
            self.shares |= shares and not is_of_shards()
            return
        self.calls += 1
        self.nbytes += moved.nbytes
        self.sums = self.sums or any(one.numel() >= _LEAST_VECTOR for one in moved.tensors)
        if moved.kind == "all_reduce":
            if len(self._by_hand) > _MOST_REMEMBERED:  # no optimizer steps, as in an evaluation
                self.clear()
            later = not self._models.in_backward  # in it, DDP reduces its own
            if not (later or self._models.known):
                self._in_backward[moved.ranks] += sum(one.numel() for one in moved.tensors)
            for tensor, storage in zip(moved.tensors, moved.storages, strict=True):
                one = _ByHand(storage, tensor.numel(), moved.ranks, later)
                self._by_hand[storage.cdata] = one
                if later:
                    at = self._models.backwards, moved.ranks
                    self._vectors[tensor.dtype, tensor.numel()] = at

    def _follow(self, moved: Moved) -> None:
        """What is summed up on one rank, until another call takes it from there."""
        for storage in moved.storages:
            self._to_one.pop(storage.cdata, None)
            if moved.kind == "reduce":
                self._to_one[storage.cdata] = storage, moved.root

    def _send(self, moved: Moved) -> None:
        """A message is sent or received: by a stage, or within a layer that ranks share.

        A stage receives before what it computes and sends after that. A function of autograd that
        does both in its forward hands on parts of what all of its ranks compute at a time, as ring
        attention does keys and values: Liu et al. 2023, "Ring Attention with Blockwise
        Transformers", section 3.
        """
        within = None if self._has_stepped else within_function()
        if within is None:
            self._sends = True
        elif not within.backward:
            self._rounds.setdefault((within.function, moved.ranks), set()).add(moved.kind)

    @property
    def rings(self) -> set[tuple[int, ...]]:
        """The ranks that hand on parts of what they compute within a layer, by the first step."""
        return {ranks for (_, ranks), kinds in self._rounds.items() if len(kinds) > 1}

    @property
    def sends(self) -> bool:
        """Whether ranks send one another messages as stages do."""
        return self._sends or any(len(kinds) == 1 for kinds in self._rounds.values())

    @property
    def of_parts(self) -> bool:
        """Whether ranks seem to be stages or experts, which have norms of their own.

        Experts exchange tokens, as parts of a sequence do, but what all have beside them is summed.
        """
        return self.sends or (self._exchanges and self.sums)

    def clear(self) -> None:
        """A step is made of what was reduced."""
        self._has_stepped = True
        self._by_hand.clear()
        self._to_one.clear()
        self._vectors.clear()
        self._in_backward.clear()

    def ranks_of(self, gradient: torch.Tensor) -> tuple[int, ...]:
        """The ranks among which the script itself reduced a gradient; empty where it did not."""
        one = self._of(gradient)
        return one.ranks if one else ()

    def root_of(self, gradient: torch.Tensor) -> int:
        """The rank on which alone a gradient was summed up; -1 where it was not so."""
        storage, root = self._to_one.get(memory_of(gradient), (None, -1))
        return -1 if storage is None or storage.expired() else root

    def later(self, gradient: torch.Tensor) -> bool:
        """Whether the script has reduced it outside of any backward."""
        one = self._of(gradient)
        return one is not None and one.later

    def _of(self, gradient: torch.Tensor) -> _ByHand | None:
        one = self._by_hand.get(memory_of(gradient))
        return None if one is None or one.storage.expired() else one

    def beside(self, gradients: Container[int]) -> int:
        """How many elements were reduced after the backward in memory that is still there.

        But for that of these ``gradients``.
        """
        return sum(
            one.elements
            for memory, one in self._by_hand.items()
            if one.later and memory not in gradients and not one.storage.expired()
        )

    def in_one(self, gradients: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """The ranks among which a vector as long as all gradients was reduced after the backward.

        Before it, it may hold parameters, as where these are averaged now and then.
        """
        size = sum(one.numel() for one in gradients)
        if size < _LEAST_VECTOR:
            return ()
        backwards, ranks = self._vectors.get((gradients[0].dtype, size), (0, ()))
        return ranks if backwards == self._models.backwards else ()

    def by_hooks(self, gradients: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """The ranks among which backwards summed up as many elements as these gradients have.

        Each backward all of them, in whatever calls: what a hook reduces may be a copy.
        """
        size = sum(one.numel() for one in gradients)
        if size < _LEAST_VECTOR:
            return ()
        found = [ranks for ranks, summed in self._in_backward.items() if summed % size == 0]
        return found[0] if len(found) == 1 else ()

    def only(self, gradients: Sequence[torch.Tensor]) -> bool:
        """Whether nothing as long as a vector but some of these was reduced, singly or in one."""
        in_one = sum(one.numel() for one in gradients if self._of(one) is not None)
        sizes = {in_one, *(one.numel() for one in gradients)}
        return all(size in sizes for _, size in self._vectors if size >= _LEAST_VECTOR)

    def since_backward(self) -> bool:
        """Whether the script has reduced any vector after the last backward."""
        return any(
            at == self._models.backwards and size >= _LEAST_VECTOR
            for (_, size), (at, _) in self._vectors.items()
        )

    def order_of(self, parameters: Sequence[tuple[str, torch.Tensor]]) -> list[str]:
        """The order in which the script has reduced the gradients of parameters, one by one."""
        names = {memory_of(one.grad): name for name, one in parameters if one.grad is not None}
        return [names[cdata] for cdata in self._by_hand if cdata in names]

    def averages(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether the parameters, or what they have changed by, were reduced before the backward.

        One by one, or all in one vector.
        """
        sizes = {(one.dtype, one.numel()) for one in parameters}
        of_all = {(parameters[0].dtype, sum(one.numel() for one in parameters))}
        before = {size for size, (at, _) in self._vectors.items() if at != self._models.backwards}
        return of_all <= before or sizes <= before


def _is_differentiated(moved: Moved) -> bool:
    """Whether a call in a forward is one that autograd follows, or that the script thinks it does.

    A loss is summed up by such a call, too, and no layer is: it is no vector.
    """
    vector = any(one.numel() >= _LEAST_VECTOR for one in moved.tensors)
    followed = any(map(is_followed, moved.tensors))
    return vector and (followed or within_function() is not None)


def is_of_shards() -> bool:
    """Whether ``fully_shard`` makes the call that is looked at."""
    frame, seen = sys._getframe(2), 0
    while frame is not None and seen < _DEEPEST:
        if _FSDP in frame.f_code.co_filename:
            return True
        frame, seen = frame.f_back, seen + 1  # type: ignore[assignment]
    return False
