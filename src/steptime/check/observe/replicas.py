"""Replicas: whether gradients were reduced before a step, and whether parameters stay equal."""

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from steptime.check.observe.alike import Alike
from steptime.check.observe.alone import Alone
from steptime.check.observe.by_hand import ByHand
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.counts import Counts
from steptime.check.observe.embedded import Embedded
from steptime.check.observe.idle import Idle
from steptime.check.observe.in_vain import InVain
from steptime.check.observe.left_out import LeftOut
from steptime.check.observe.losses import Losses
from steptime.check.observe.meets import Meets
from steptime.check.observe.model import Model
from steptime.check.observe.models import RUNS, Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.norm_again import NormAgain
from steptime.check.observe.observer import Observer
from steptime.check.observe.one_way import OneWay
from steptime.check.observe.optimizers import parameters_of, settings_of
from steptime.check.observe.own_batches import OwnBatches
from steptime.check.observe.owned import Owned
from steptime.check.observe.partial import Partial
from steptime.check.observe.reduced import Reduced
from steptime.check.observe.replaced import all_of
from steptime.check.observe.resummed import Resummed
from steptime.check.observe.scaled import Scaled
from steptime.check.observe.tensors import is_hooked, is_sharded
from steptime.check.observe.unfinite import Unfinite
from steptime.record.calls import Calls
from steptime.record.closures import Given, once_made
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site
from steptime.record.tensors import nbytes_of
from steptime.world import compat

UNREDUCED, STEPS, LOOKED = "unreduced", "steps", "looked"
BEFORE, HASHES = "hashes before", "hashes"
"""What is noted of parameters that should be equal: before the first step, and after some."""

HOOKED = "by hooks"
"""In place of the model's name: parameters whose gradients hooks of the script reduce."""

TWICE = "reduced twice"
"""What is noted of a model whose gradients the script reduces after DDP has."""

AVERAGED = "averaged"
"""What is noted of a model whose parameters are averaged now and then, as by local SGD."""

EVERY_VARIABLE = "STEPTIME_CHECK_EVERY"
"""Parameters are compared after the first steps, then ever more seldom, in the end after every so
many steps."""
_EVERY, _FIRST, _SELDOM = 50, 10, 3

_OWN = 0.25
"""The part of all steps that an optimizer makes at least whose loop is over when the rank ends."""

_ENOUGH = 0.25
"""The part of a step's gradients, by bytes, that must have been reduced: some are compressed."""


@dataclass(eq=False)
class Steps:
    """An optimizer's steps: how many, and the one after which parameters are compared next.

    ``number``: how many optimizers made a step before this one did. ``reduced``, ``reductions``:
    the bytes, and the calls, that were reduced before the gradients of its last step were made.
    ``joined``: under ``Join``, where a rank may make fewer.
    """

    number: int
    made: int = 0
    due: int = 1
    reduced: int = 0
    reductions: int = 0
    joined: bool = False


class Replicas:
    """What this process knows of its optimizers' steps and of what was reduced before them."""

    def __init__(self, log: Log, models: Models, calls: Calls) -> None:
        self._log = log
        self._models = models
        self._of_thread = calls.of_thread
        self._every = max(1, int(os.environ.get(EVERY_VARIABLE, _EVERY)))
        self._steps: weakref.WeakKeyDictionary[Any, Steps] = weakref.WeakKeyDictionary()
        self._all: list[Steps] = []
        self._reduced = Reduced(models)
        self._left_out = LeftOut(log, models, self._reduced)
        self._alone = Alone(log, models)
        self._meets = Meets(log, models, self._reduced)
        self._by_hand = ByHand(log, models)
        self.idle = Idle(log, models)
        self._in_vain = InVain(log, models, self.idle)
        self.losses = Losses(log, models)
        self.scaled = Scaled(log, models)
        self.resummed = Resummed(log, models)
        self.unfinite = Unfinite(log, models)
        self.one_way = OneWay(log, models)
        self._partial = Partial(log, models)
        self.owned = Owned(log, models, self.idle, self._reduced)
        self._followers = (
            *(self._reduced, self._alone, self._by_hand, self.idle, self.losses, self.one_way),
            *(self._partial, self.resummed, Counts(log, models), Alike(log), Embedded(log, models)),
            *(self._meets, NormAgain(log, models)),
        )
        self._noted: set[tuple[Any, ...]] = set()

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """Count what is reduced, and remember whose gradients are."""
        del asynchronous
        if group.size() > 1:
            RUNS[0] += 1
            moved = Moved(operation, group, arguments, peer, self._of_thread.reduction)
            for follower in self._followers:
                follower.note(moved)

    def before_step(self, optimizer: Any, arguments: Any, options: Any) -> Given | None:
        """Tell of models whose gradients were not reduced since the last step."""
        return once_made(arguments, options, lambda: self._made(optimizer))

    def _made(self, optimizer: Any) -> None:
        """The gradients of a step are made, and should be reduced."""
        steps = self._steps_of(optimizer)
        reduced = self._reduced.nbytes - steps.reduced
        steps.reduced, steps.reductions = self._reduced.nbytes, self._reduced.calls
        self._in_vain.stepping(optimizer)
        self._alone.stepping(steps.number, steps.made, optimizer)
        self._meets.stepping(steps.number, steps.made, optimizer)
        self._by_hand.stepping(steps.number, optimizer)
        self.idle.stepping(optimizer)
        self.one_way.stepping()
        self._partial.stepping()
        self.scaled.stepping(steps.number, optimizer)
        self.resummed.stepping()
        if not steps.made:
            self._left_out.see(steps.number, optimizer)
            self._hash(BEFORE, optimizer, steps)
        owned = _ids(optimizer)
        for model in self._models.known:
            wrapped = model.wrapped()
            gradients = [
                (name, parameter)
                for name, parameter in model.replicated()
                if id(parameter) in owned and parameter.grad is not None
            ]
            if wrapped is None or not gradients:
                continue
            if model.in_part and self._reduced.averages([one for _, one in gradients]):
                self._note(AVERAGED, "", model, site(self._log))
            if wrapped.process_group.size() < 2:
                continue
            if compat.is_joined(wrapped):
                steps.joined = True
            known = [one for _, one in gradients if id(one) in model.reduced]
            of_ddp = known or [one for _, one in gradients]
            needed = sum(nbytes_of(one.grad) for one in of_ddp if one.grad is not None)
            hooked = bool(compat.comm_hooks(wrapped)) and reduced > 0
            if reduced < _ENOUGH * needed and not hooked:
                if not _averages_later(wrapped):
                    self._unreduced(model)
            elif model.armed and model.ends_quiet:
                self._note(UNREDUCED, "quiet end", model, site(self._log))
            elif not model.armed and self._reduced.averages([one for _, one in gradients]):
                self._note(AVERAGED, "", model, site(self._log))
            else:
                self._late(model, gradients)
                self._see_twice(model, [one.grad for _, one in gradients if one.grad is not None])
            self._models.wiped.stepped(model)
            self._models.thrown_away.stepped(model)
            model.stepped()

    def _see_twice(self, model: Model, gradients: Sequence[torch.Tensor]) -> None:
        """Tell of gradients that DDP has averaged, and most of which the script reduces, too."""
        wrapped = model.wrapped()
        again = sum(nbytes_of(one) for one in gradients if self._reduced.later(one))
        of_ddp = model.armed and wrapped is not None and not compat.comm_hooks(wrapped)
        if of_ddp and 2 * again > sum(map(nbytes_of, gradients)):
            self._note(TWICE, "again", model, site(self._log))

    def after_step(self, optimizer: Any, *_: Any) -> None:
        """Hash the parameters that should be equal on all ranks, now and then."""
        steps = self._steps_of(optimizer)
        steps.made = step = steps.made + 1
        if step >= steps.due:
            later = step // _SELDOM if step >= _FIRST else 1
            steps.due = step + min(later, self._every)
            self._hash(HASHES, optimizer, steps)
            self._models.statistics.note(step)
        self.idle.stepped(optimizer)
        self._by_hand.stepped(steps.number, optimizer)
        self.owned.stepped(optimizer)
        self.unfinite.stepped(optimizer)
        self._reduced.clear()

    def _hash(self, what: str, optimizer: Any, steps: Steps) -> None:
        """Note a hash of each parameter that should be equal on some ranks."""
        kept = {f"{model.name} {model.number}": model.kept for model in self._models.known}
        trained = sum(one.grad is not None for one in parameters_of(optimizer))
        for name, ranks, parameters in self._sets(optimizer):
            if not all(readable(parameter) for _, parameter in parameters):
                continue
            self._log.note(
                observed=what,
                optimizer=steps.number,
                model=name,
                ranks=list(ranks),
                step=steps.made,
                whole=len(parameters) == trained,
                reductions=self._reduced.calls,
                kept=kept.get(name, 0),
                at=site(self._log),
                settings=settings_of(optimizer),
                order=[] if name else self._reduced.order_of(parameters),
                names=[name for name, _ in parameters],
                hashes=[hash_of([parameter]) for _, parameter in parameters],
            )

    def end(self) -> None:
        """Say how many steps each optimizer made, and what DDP looked for in vain.

        Under ``Join`` a rank may make fewer: in the end it is given the parameters of another.
        """
        self._models.evaluations.end()
        self._alone.end()
        self._in_vain.end()
        for model in self._models.known:
            if model.looks and not model.has_unused:
                self._log.note(
                    observed=LOOKED,
                    model=model.name,
                    at=model.wrapped_at,
                    looking_ns=model.looking_ns,
                )
        made = sum(steps.made for steps in self._all)
        alive = set(self._steps.values())
        for steps in self._all:
            # One of an inner loop is gone after a few steps, and another comes.
            if not steps.joined and (steps in alive or steps.made >= _OWN * made):
                self._log.note(
                    observed=STEPS,
                    optimizer=steps.number,
                    steps=steps.made,
                    reductions=self._reduced.calls,
                    before=steps.reductions,
                )

    def _steps_of(self, optimizer: Any) -> Steps:
        steps = self._steps.get(optimizer)
        if steps is None:
            # Not how many there are: one that is gone had its number, too.
            steps = self._steps[optimizer] = Steps(len(self._all))
            self._all.append(steps)
        return steps

    def _sets(
        self, optimizer: Any
    ) -> list[tuple[str, tuple[int, ...], list[tuple[str, torch.Tensor]]]]:
        """The parameters of an optimizer that should be equal on some ranks, by model."""
        owned = _ids(optimizer)
        found: list[tuple[str, tuple[int, ...], list[tuple[str, torch.Tensor]]]] = []
        for model in self._models.known:
            wrapped = model.wrapped()
            if wrapped is None or _averages_later(wrapped):
                continue
            ranks = compat.ranks_of(wrapped.process_group)
            of_model: list[tuple[str, torch.Tensor]] = [
                (name, one)
                for name, one in model.replicated()
                if id(one) in owned and not is_sharded(one)
            ]
            owned -= {id(one) for _, one in of_model}
            if of_model and (len(ranks) > 1 or model.in_part):
                found.append((f"{model.name} {model.number}", ranks, of_model))
        by_ranks: dict[tuple[int, ...], list[tuple[str, torch.Tensor]]] = {}
        left = [
            (number, one, one.grad)
            for number, one in enumerate(parameters_of(optimizer))
            if id(one) in owned and one.grad is not None and not is_sharded(one)
        ]
        # What a hook reduces is the gradient's memory, or a copy's, as it happens.
        hooked = [one for one in left if is_hooked(one[1])]
        left = [one for one in left if not is_hooked(one[1])]
        in_one = self._reduced.in_one([gradient for *_, gradient in left])
        trains_part = self._trains_part([gradient for *_, gradient in left])
        for number, one, gradient in left:
            ranks = self._reduced.ranks_of(gradient) or in_one
            if len(ranks) > 1 and not trains_part:
                by_ranks.setdefault(ranks, []).append((f"parameter {number}", one))
        found += [("", ranks, of_ranks) for ranks, of_ranks in by_ranks.items()]
        ranks = self._reduced.by_hooks([gradient for *_, gradient in hooked])
        if len(ranks) > 1:
            found.append(
                (HOOKED, ranks, [(f"parameter {number}", one) for number, one, _ in hooked])
            )
        return found

    def _trains_part(self, gradients: Sequence[torch.Tensor]) -> bool:
        """Whether the script reduces many more gradients than its optimizers have (ZeRO-1)."""
        reduced = [one.numel() for one in gradients if self._reduced.ranks_of(one)]
        beside = self._reduced.beside(self.idle.gradients())
        return bool(reduced) and beside >= _ENOUGH * sum(reduced)

    def _unreduced(self, model: Model) -> None:
        step = site(self._log)
        wrapped = model.wrapped()
        if model.armed and model.begun == self._models.backwards:
            self._note(UNREDUCED, "no backward", model, step)
        elif model.armed and wrapped is not None and compat.comm_hooks(wrapped):
            self._note(UNREDUCED, "hook", model, step)
        elif model.armed and not model.moved_at and (unused := model.unused()):
            self._note(UNREDUCED, "unused", model, step, unused)
        elif model.armed and not model.moved_at and (replaced := model.replaced()):
            self._note(UNREDUCED, "replaced", model, step, replaced)
        elif model.armed:
            self._note(UNREDUCED, "lost", model, model.moved_at or step)
        elif model.quiet:
            self._note(UNREDUCED, "quiet", model, step)
        elif model.bypassed_at:
            self._note(UNREDUCED, "bypassed", model, model.bypassed_at)

    def _late(self, model: Model, gradients: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Tell of parameters that came after DDP, which reduces those alone that it was given."""
        late = [
            name
            for name, one in gradients
            if id(one) not in model.reduced
            and one.grad is not None
            and not self._reduced.ranks_of(one.grad)
        ]
        if late:
            self._note(UNREDUCED, "late", model, site(self._log), late[0])

    def _note(self, what: str, fault: str, model: Model, at: int, parameter: str = "") -> None:
        if (fault, model.number, at) not in self._noted:
            self._noted.add((fault, model.number, at))
            self._log.note(
                observed=what,
                fault=fault,
                model=f"{model.name} {model.number}",
                at=at,
                parameter=parameter,
            )


def _ids(optimizer: Any) -> set[int]:
    return {id(one) for one in parameters_of(optimizer)}


def _averages_later(wrapped: Any) -> bool:
    """Whether replicas may differ for a while, since their parameters are averaged now and then."""
    hooks = compat.comm_hooks(wrapped)
    return any("post_localSGD" in getattr(hook, "__qualname__", "") for hook in hooks)


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    models = Models(log)
    replicas = Replicas(log, models, calls)
    contained = Contained("replicas")
    beginning = (replicas.losses, replicas.resummed, replicas.unfinite, replicas.one_way)
    models.before_backward += [contained.of(one.begin) for one in beginning]
    models.before_pass += [contained.of(one.given) for one in (OwnBatches(log), replicas.owned)]
    models.after_backward.append(contained.of(replicas.scaled.after_backward))
    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, replicas.issued)),
            models.install(),
            replicas.idle.install(contained),
            register_optimizer_step_pre_hook(contained.of(replicas.before_step)).remove,
            register_optimizer_step_post_hook(contained.of(replicas.after_step)).remove,
            replicas.end,
        ]
    )


OBSERVER = Observer(_observe)
