"""By hand: gradients that a script itself sends between ranks, and what they are by the step."""

from dataclasses import dataclass, field
from typing import Any

import torch

from steptime.check.observe.buffers import Storage, memory_of, storage_of
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.tensors import is_sharded
from steptime.record.events import Log
from steptime.record.places import site
from steptime.record.tensors import nbytes_of

BY_HAND = "by hand"
"""What is noted of a step by gradients that other ranks have no part in, though they are sent."""

LATE, TO_ONE, OF_ONE = "late", "to one", "of one"
"""Why: they are reduced after their step, on one rank alone, or those of one rank go to all."""

_PICKING = ("max", "min", "product")
"""Reductions that are told by their own name: no mean comes of what they give."""

_SENDING = ("all_reduce", "reduce", "broadcast")
_MOST_REMEMBERED = 10_000
_MOST_OPTIMIZERS = 16
"""Those that have stepped last: an inner loop makes a new one each time."""


@dataclass(eq=False)
class _Sent:
    """What calls a tensor was given to since the last step; ``root`` and ``at``: of the last.

    ``picked``: by what it was reduced, if one element of all was picked.
    """

    storage: Storage
    kinds: set[str] = field(default_factory=set)
    root: int = -1
    at: int = 0
    picked: str = ""

    @property
    def of_all(self) -> bool:
        """Whether it is the sum over all ranks by now, on every rank."""
        return "all_reduce" in self.kinds or {"reduce", "broadcast"} <= self.kinds


class ByHand:
    """Gradients of no model under DDP: whether those of a step are sums, or ever become such."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._sent: dict[int, _Sent] = {}
        self._of_steps: dict[int, dict[int, Storage]] = {}
        self._late: dict[int, tuple[int, int]] = {}
        self._to_one: dict[int, tuple[_Sent, int]] = {}
        self._otherwise = 0  # bytes since the last step that were not broadcast
        self._noted: set[tuple[str, int]] = set()

    def note(self, moved: Moved) -> None:
        """A call is made."""
        picks = moved.reduction in _PICKING  # which no backward of PyTorch's own does
        if self._models.in_backward and not picks:
            return
        self._otherwise += moved.nbytes if moved.kind != "broadcast" else 0
        if moved.kind not in _SENDING:
            return
        if len(self._sent) > _MOST_REMEMBERED:  # no optimizer steps, as in an evaluation
            self._sent.clear()
        to_all = moved.kind == "all_reduce"
        picked = moved.reduction if picks else ""
        at = site(self._log) if picked or not to_all else 0
        for tensor, storage in zip(moved.tensors, moved.storages, strict=True):
            one = self._sent.setdefault(storage.cdata, _Sent(storage))
            one.kinds.add(moved.kind)
            one.picked = picked
            if picked or not to_all:
                one.root, one.at = -1 if to_all else moved.root, at
            if not to_all:
                continue
            for number, of_step in self._of_steps.items():
                if storage.cdata in of_step:
                    nbytes, _ = self._late.get(number, (0, 0))
                    self._late[number] = nbytes + nbytes_of(tensor), site(self._log)

    def stepping(self, number: int, optimizer: Any) -> None:
        """The optimizer ``number`` is about to step."""
        trained = self._trained(optimizer)
        if number in self._to_one:
            summed, step_at = self._to_one.pop(number)
            if not any(self._known(parameter) for parameter in trained):
                self._tell(TO_ONE, summed.at, step_at, summed.root)
        gradients = [one.grad for one in trained if one.grad is not None]
        sent = [
            (one, nbytes_of(gradient)) for gradient in gradients if (one := self._known(gradient))
        ]
        if sent and all(one.picked for one, _ in sent):
            self._tell(sent[0][0].picked, sent[0][0].at, site(self._log), -1)
        if not gradients or any(one.of_all for one, _ in sent):
            return
        most = sum(map(nbytes_of, gradients)) / 2
        late, late_at = self._late.get(number, (0, 0))
        for kind, fault in (("reduce", TO_ONE), ("broadcast", OF_ONE)):
            of_kind = [(one, nbytes) for one, nbytes in sent if kind in one.kinds]
            if sum(nbytes for _, nbytes in of_kind) > most:
                one, here = of_kind[0][0], site(self._log)
                if fault == TO_ONE:  # whose parameters may be broadcast next
                    self._to_one[number] = one, here
                elif self._otherwise < most / 2:  # else they may have been gathered first
                    self._tell(fault, one.at, here, one.root)
                return
        if late > most:
            self._tell(LATE, late_at, site(self._log), -1)

    def stepped(self, number: int, optimizer: Any) -> None:
        """It has stepped: its gradients are of a step that is made."""
        gradients = [one.grad for one in self._trained(optimizer) if one.grad is not None]
        storages = [storage_of(one) for one in gradients]
        self._of_steps.pop(number, None)
        self._of_steps[number] = {one.cdata: one for one in storages}
        if len(self._of_steps) > _MOST_OPTIMIZERS:
            del self._of_steps[next(iter(self._of_steps))]
        self._late.pop(number, None)
        self._sent.clear()
        self._otherwise = 0

    def _trained(self, optimizer: Any) -> list[torch.Tensor]:
        of_models = self._models.ids()
        parameters = parameters_of(optimizer)
        return [one for one in parameters if id(one) not in of_models and not is_sharded(one)]

    def _known(self, tensor: torch.Tensor) -> _Sent | None:
        one = self._sent.get(memory_of(tensor))
        return None if one is None or one.storage.expired() else one

    def _tell(self, fault: str, at: int, step_at: int, root: int) -> None:
        if (fault, step_at) not in self._noted:
            self._noted.add((fault, step_at))
            self._log.note(observed=BY_HAND, fault=fault, at=at, step_at=step_at, root=root)
