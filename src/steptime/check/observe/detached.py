"""Detached: what a call of c10d gives has no gradient, and a loss is made of it all the same."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from steptime.check.observe.buffers import read_and_written, tensors_in
from steptime.check.observe.contained import Contained, ContainedWatcher, caller, watched_calls
from steptime.check.observe.observer import Observer
from steptime.check.observe.races import is_called_by_script
from steptime.check.observe.replaced import all_of, before
from steptime.check.observe.tensors import is_followed
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import is_of_script, site
from steptime.world import compat

DETACHED = "detached"
"""What is noted of a line that computes, with gradients, from what a call gave without any."""

_KINDS = ("all_gather", "all_to_all")
_JOINING = ("cat", "concat", "concatenate", "hstack", "stack", "vstack")
_MOST_FOLLOWED = 2  # times for each line
_MOST_FUNCTIONS = 10_000


class Detached:
    """Follows what a call gives of tensors with a gradient, from the call to the next backward.

    Only where grad mode is on: who switches it off, as for a metric, means constants. The first
    times alone, since that sees every function of torch, and not where anything is compiled: the
    compiler would take it for a part of the script.
    """

    def __init__(self, log: Log, contained: Contained) -> None:
        self._log = log
        self._contained = contained
        self._followed: dict[int, int] = {}
        self._trail: _Trail | None = None
        self._compiles = False

    def compiles(self, *_: Any, **__: Any) -> None:
        """The script compiles something: from here on nothing is followed."""
        self._compiles = True
        self.end()

    def issued(
        self,
        operation: Operation,
        group: Any,
        arguments: Sequence[Any],
        *,
        peer: int,
        asynchronous: bool,
    ) -> None:
        """Begin to follow what the call writes."""
        del peer, asynchronous
        if operation.kind not in _KINDS or group.size() < 2:
            return
        if self._compiles or not torch.is_grad_enabled():
            return
        read, written = read_and_written(operation.kind, arguments, is_root=False)
        if not any(map(is_followed, read)):
            return
        noting = caller()
        frame = noting.f_back if noting else None
        if frame is None or not is_called_by_script(frame):
            return
        at = site(self._log, frame)
        self._followed[at] = self._followed.get(at, 0) + 1
        if self._trail is not None:
            self._trail.mark(written)
        elif self._followed[at] <= _MOST_FOLLOWED and not compat.function_modes():
            self._trail = _Trail(written, self._contained.of(self._note_at(operation.kind, at)))
            self._trail.__enter__()  # type: ignore[no-untyped-call]

    def end(self, *_: Any, **__: Any) -> None:
        """Follow it no more: a backward begins, or the process ends."""
        modes = compat.function_modes()
        if self._trail is not None:
            self._trail.over = True
            if modes and modes[-1] is self._trail:  # else the script has entered one of its own
                self._trail.__exit__(None, None, None)
                self._trail = None

    def _note_at(self, call: str, call_at: int) -> Callable[[], None]:
        def note() -> None:
            frame = caller()
            while frame is not None and not is_of_script(frame):
                frame = frame.f_back
            if frame is not None:
                at = site(self._log, frame)
                self._log.note(observed=DETACHED, call=call, call_at=call_at, at=at)

        return note


class _Trail(TorchFunctionMode):
    """What is made of some tensors, until something with a gradient is made of it."""

    def __init__(self, tensors: Sequence[torch.Tensor], found: Callable[[], None]) -> None:
        super().__init__()
        self.over = False
        self._found = found
        self._left = _MOST_FUNCTIONS
        self._marked: dict[int, weakref.ref[torch.Tensor]] = {}
        self.mark(tensors)

    def mark(self, tensors: Sequence[torch.Tensor]) -> None:
        """Follow these, too."""
        for one in tensors:
            self._marked[id(one)] = weakref.ref(one)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        result = function(*args, **(kwargs or {}))
        self._left -= 1
        if not self.over and self._left > 0:
            self._see(function, [*tensors_in([args, kwargs or {}])], [*tensors_in(result)])
        return result

    def _see(
        self, function: Any, taken: Sequence[torch.Tensor], made: Sequence[torch.Tensor]
    ) -> None:
        marked = [one for one in taken if self._is_marked(one)]
        if not marked or any(one.requires_grad for one in marked):
            return  # the script has given it a gradient of its own, which it sends back itself
        if not any(one.requires_grad for one in taken):
            self.mark(made)
        elif getattr(function, "__name__", "") in _JOINING:
            pass  # the rank's own part, which has a gradient, is put back in its place
        elif any(one.requires_grad and one.is_floating_point() for one in made):
            self.over = True
            self._found()

    def _is_marked(self, tensor: torch.Tensor) -> bool:
        found = self._marked.get(id(tensor))
        return found is not None and found() is tensor


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("gradients of calls")
    detached = Detached(log, contained)
    end = contained.of(detached.end)
    return all_of(
        [
            end,
            watched_calls(calls, ContainedWatcher(contained, detached.issued)),
            before([torch.autograd], "backward", end),
            before([torch], "compile", contained.of(detached.compiles)),
        ]
    )


OBSERVER = Observer(_observe)
