"""Hooks of gradients: what a script's own sum up there, and whether the gradients become it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from steptime.check.observe.buffers import memory_of
from steptime.check.observe.by_hand import BY_HAND
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import readable, samples_of
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import is_of_user, site

DROPPED = "dropped"
"""Why ranks step by gradients of their own: a hook sums up a copy, and nobody has it then."""

_MOST = 16  # hooks that are followed: they do the same for each parameter, and in each backward


class _Running(threading.local):
    """The hook that a thread runs, by the gradient that it is given, and where it sums up others.

    ``memory`` and ``elements``: of that gradient, which is not kept; 0 where the thread runs none.
    """

    memory = elements = 0
    sums: Sequence[int] = ()


class Hooks:
    """The first hooks of gradients that run in this process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running = _Running()
        self._followed = 0

    def begin(self, gradient: Any) -> list[float] | None:
        """A hook is about to run; some of what it is given, None where nobody looks."""
        plain = type(gradient) is torch.Tensor and gradient.numel() > 0
        if self._followed >= _MOST or not plain or not readable(gradient):
            return None
        self._followed += 1
        self._running.memory, self._running.elements = memory_of(gradient), gradient.numel()
        self._running.sums = ()
        return samples_of(gradient)

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """A call is made: in a hook it may sum up a copy of the gradient."""
        del peer
        running = self._running
        if not running.elements or asynchronous or operation.kind != "all_reduce":
            return
        tensors = operation.vector(arguments) if group.size() > 1 else []
        as_large = len(tensors) == 1 and tensors[0].numel() == running.elements
        if as_large and memory_of(tensors[0]) != running.memory:
            running.sums = (*running.sums, site(self._log))

    def end(self, before: list[float], gradient: Any) -> None:
        """The hook has run: whether ``gradient``, which goes on, is what it was ``before``."""
        sums, self._running.elements = self._running.sums, 0
        if not sums or memory_of(gradient) != self._running.memory:
            return
        if samples_of(gradient) == before:
            self._log.note(observed=BY_HAND, fault=DROPPED, at=sums[0], step_at=0, root=-1)


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    hooks, contained = Hooks(log), Contained("hooks")
    begin, end = contained.of(hooks.begin), contained.of(hooks.end)

    def looking_on(hook: Function, of: Callable[[Any], Any]) -> Function:
        """A hook that does the same; ``of``: the gradient of what it is given."""

        def run(given: Any) -> Any:
            before = None if torch.compiler.is_compiling() else begin(of(given))
            result = hook(given)
            if before is not None:
                end(before, of(given) if result is None else result)
            return result

        return run

    def registering(of: Callable[[Any], Any]) -> Callable[[Function], Function]:
        def watched(register: Function) -> Function:
            def registers(tensor: Any, hook: Function) -> Any:
                code = getattr(hook, "__code__", None)
                own = code is not None and is_of_user(code)
                return register(tensor, looking_on(hook, of) if own else hook)

            return registers

        return watched

    kinds = {
        "register_hook": lambda gradient: gradient,
        "register_post_accumulate_grad_hook": lambda parameter: parameter.grad,
    }
    return all_of(
        [
            *(replaced([torch.Tensor], name, registering(of)) for name, of in kinds.items()),
            watched_calls(calls, ContainedWatcher(contained, hooks.issued)),
        ]
    )


OBSERVER = Observer(_observe)
