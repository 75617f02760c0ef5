"""Sent names: which parameters ranks send and gather, and which of their own they then have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from steptime.check.observe.buffers import Storage, memory_of, read_and_written, storage_of
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.observer import Observer
from steptime.check.observe.replaced import Function, after, all_of, replaced
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site
from steptime.world import compat

SENT_NAMES = "sent names"
"""What is noted at the end of the parameters that a group's calls of a kind were of, in order."""

_KINDS = ("broadcast", "all_gather")
_MOST = 2000  # calls of a kind in a group, and names


class SentNames:
    """The names of this process's parameters, and what it has sent or gathered of them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: dict[int, tuple[Storage, str]] = {}
        self._sent: dict[tuple[str, tuple[int, ...]], list[tuple[str, int, int]]] = {}

    def named(self, name: str, tensor: Any) -> None:
        """A module has a tensor under a name: the longest is that of the whole model."""
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_meta
        if not plain or tensor.layout is not torch.strided or len(self._names) >= _MOST:
            return
        storage = storage_of(tensor)
        before = self._names.get(storage.cdata)
        if before is None or before[0].expired() or len(before[1]) < len(name):
            self._names[storage.cdata] = storage, name

    def stated(self, state: Any, *_: Any, **__: Any) -> None:
        """A module's state is taken, by its names."""
        for name, tensor in state.items() if isinstance(state, Mapping) else ():
            if isinstance(tensor, torch.Tensor):
                self.named(name, tensor)

    def issued(
        self, operation: Operation, group: Any, arguments: Any, *, peer: int, **_: Any
    ) -> None:
        """A call is made."""
        if operation.kind not in _KINDS or group.size() < 2:
            return
        ranks = compat.ranks_of(group)
        sent = self._sent.setdefault((operation.kind, ranks), [])
        if len(sent) < _MOST:
            read, written = read_and_written(operation.kind, arguments, is_root=False)
            root = ranks[peer] if operation.kind == "broadcast" else -1
            sent.append((self._name_of(read or written), root, site(self._log)))

    def end(self) -> None:
        """The process ends."""
        for (kind, ranks), sent in self._sent.items():
            if any(name for name, *_ in sent):
                self._log.note(
                    observed=SENT_NAMES,
                    kind=kind,
                    ranks=list(ranks),
                    names=[name for name, *_ in sent],
                    roots=[root for _, root, _ in sent],
                    at=next(at for name, _, at in sent if name),
                )

    def _name_of(self, tensors: Sequence[torch.Tensor]) -> str:
        """The name of the one parameter that a call is of; "": it is of something else."""
        if len(tensors) != 1:
            return ""
        tensor = tensors[0]
        storage, name = self._names.get(memory_of(tensor), (None, ""))
        whole = storage is not None and not storage.expired()
        return name if whole and tensor.nbytes == tensor.untyped_storage().nbytes() else ""


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("names of what is sent")
    names = SentNames(log)
    named = contained.of(names.named)

    def each(found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, parameter in found:
            named(name, parameter)
            yield name, parameter

    def naming(parameters: Function) -> Function:
        def names_them(*arguments: Any, **options: Any) -> Iterator[tuple[str, Any]]:
            found = parameters(*arguments, **options)
            return found if torch.compiler.is_compiling() else each(found)

        return names_them

    return all_of(
        [
            names.end,
            watched_calls(calls, ContainedWatcher(contained, names.issued)),
            replaced([torch.nn.Module], "named_parameters", naming),
            after([torch.nn.Module], "state_dict", contained.of(names.stated)),
        ]
    )


OBSERVER = Observer(_observe)
