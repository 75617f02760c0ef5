"""The operators of c10d: which collective each is, and where its arguments say what.

Their arguments stand in torch's schemas (torch/csrc/distributed/c10d/Ops.cpp, 2.13 and 2.15).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

_ONE, _LIST, _LISTS = 0, 1, 2

Detail: TypeAlias = tuple[tuple[str, Any], ...]
"""Names and what they stand for, as ``(("tag", 3),)``."""


@dataclass(frozen=True)
class Operation:
    """An operator of c10d: the collective it is, and where its arguments say what.

    ``tensors``, ``group``, ``peer`` and ``asynchronous`` are positions of arguments, -1 where there
    is none. The tensors are those whose bytes count, as ``bench`` counts them: the whole vector;
    ``depth`` says whether one (0) or a list stands there (1), or a list of lists (2).
    ``times_group``: the tensor is the share of one rank. ``detail``: what else of the arguments
    must fit that of other ranks, by name; None where there is nothing.
    """

    name: str
    kind: str
    tensors: int
    depth: int
    group: int
    peer: int = -1
    asynchronous: int = -1
    times_group: bool = False
    detail: Callable[[Sequence[Any]], Detail] | None = None

    def vector(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The tensors among the arguments of a call."""
        if self.tensors < 0:
            return []
        found = arguments[self.tensors]
        if self.depth < 2:
            return list(found) if self.depth else [found]
        return [tensor for tensors in found for tensor in tensors]

    @property
    def is_message(self) -> bool:
        """Whether it goes between two ranks alone."""
        return self.kind in ("send", "recv")

    @property
    def reduces(self) -> bool:
        """Whether it combines the tensors of several ranks."""
        return "reduce" in self.kind


def _tag(arguments: Sequence[Any]) -> Detail:
    return (("tag", arguments[-1]),) if arguments[-1] else ()


def _lengths(arguments: Sequence[Any]) -> Detail:
    """How many elements go to each rank, and come from each."""
    outputs, inputs = arguments[:2]
    return (
        ("sends", tuple(tensor.numel() for tensor in inputs)),
        ("receives", tuple(tensor.numel() for tensor in outputs)),
    )


def _splits(arguments: Sequence[Any]) -> Detail:
    """The same of a call that splits its tensors by rows; nothing where it splits them evenly."""
    output, vector, _, receives, sends = arguments[:5]
    if not (receives and sends):
        return ()
    return (("sends", _elements(vector, sends)), ("receives", _elements(output, receives)))


def _elements(tensor: Any, rows: Sequence[int]) -> tuple[int, ...]:
    of_row = tensor.shape[1:].numel()
    return tuple(number * of_row for number in rows)


OPERATIONS = (
    Operation("allreduce_", "all_reduce", 0, _LIST, 1, asynchronous=4),
    Operation("allreduce_coalesced_", "all_reduce", 0, _LIST, 1, asynchronous=3),
    Operation("allgather_", "all_gather", 0, _LISTS, 2, asynchronous=3),
    Operation("_allgather_base_", "all_gather", 0, _ONE, 2, asynchronous=3),
    Operation("allgather_coalesced_", "all_gather", 0, _LISTS, 2, asynchronous=3),
    Operation("allgather_into_tensor_coalesced_", "all_gather", 0, _LIST, 2, asynchronous=3),
    Operation("reduce_scatter_", "reduce_scatter", 1, _LISTS, 2, asynchronous=4),
    Operation("_reduce_scatter_base_", "reduce_scatter", 1, _ONE, 2, asynchronous=4),
    Operation("reduce_scatter_tensor_coalesced_", "reduce_scatter", 1, _LIST, 2, asynchronous=4),
    Operation("broadcast_", "broadcast", 0, _LIST, 1, peer=2, asynchronous=4),
    Operation("reduce_", "reduce", 0, _LIST, 1, peer=3, asynchronous=5),
    Operation("gather_", "gather", 1, _LIST, 2, peer=3, asynchronous=4, times_group=True),
    Operation("scatter_", "scatter", 0, _LIST, 2, peer=3, asynchronous=4, times_group=True),
    Operation("alltoall_", "all_to_all", 1, _LIST, 2, asynchronous=3, detail=_lengths),
    Operation("alltoall_base_", "all_to_all", 1, _ONE, 2, asynchronous=5, detail=_splits),
    Operation("barrier", "barrier", -1, _ONE, 1, asynchronous=3),
    Operation("monitored_barrier_", "barrier", -1, _ONE, 1),
    Operation("send", "send", 0, _LIST, 1, peer=2, detail=_tag),
    Operation("recv_", "recv", 0, _LIST, 1, peer=2, detail=_tag),
    Operation("recv_any_source_", "recv", 0, _LIST, 1, detail=_tag),
    Operation("gather_into_tensor_", "gather", 1, _ONE, 2, 3, asynchronous=4, times_group=True),
)
"""The operators, in an order that events and their readers share: new ones come last.

``gather_into_tensor_`` is there from torch 2.15 on.
"""

_OF_METHOD = {
    "allreduce": "allreduce_",
    "all_reduce_by": "allreduce_",
    "allreduce_coalesced": "allreduce_coalesced_",
    "allgather": "allgather_",
    "all_gather_single": "_allgather_base_",
    "_allgather_base": "_allgather_base_",
    "allgather_coalesced": "allgather_coalesced_",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced_",
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "reduce_scatter": "reduce_scatter_",
    "reduce_scatter_single": "_reduce_scatter_base_",
    "_reduce_scatter_base": "_reduce_scatter_base_",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "broadcast": "broadcast_",
    "reduce": "reduce_",
    "gather": "gather_",
    "gather_single": "gather_into_tensor_",
    "scatter": "scatter_",
    "alltoall": "alltoall_",
    "all_to_all_single": "alltoall_base_",
    "alltoall_base": "alltoall_base_",
    "barrier": "barrier",
    "send": "send",
    "recv": "recv_",
    "recv_anysource": "recv_any_source_",
}

METHODS = {
    method: [operation.name for operation in OPERATIONS].index(name)
    for method, name in _OF_METHOD.items()
}
"""The methods of a group, and the operators that they would call where it is no Python class.

Their tensors come first, in the order in which the operators take them.
"""

FROM_ANY = METHODS["recv_anysource"]
"""The number of the operation that receives from whichever rank sends first."""
