"""The calls of a torch.profiler trace: from NCCL's kernels, from gloo's own spans, or both named.

A collective shows up to three times: as operator of c10d on the thread that calls it, as the span
of the backend's own work, and as a kernel. The kernel tells when it ran, and where there is none
the span; bytes, dtype and group stand at whichever of them says them.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from steptime.record.read import Group
from steptime.record.traces.events import Args, whole
from steptime.record.traces.naming import elements, item_bytes, kind_of, vector_elements
from steptime.record.traces.profiled import Groups, Profiled, Slice, Within
from steptime.record.traces.trace import Call

_VECTORS: Mapping[str, tuple[str, int, bool]] = MappingProxyType(
    {
        "allreduce_": ("all_reduce", 0, False),
        "allreduce_coalesced_": ("all_reduce", 0, False),
        "allgather_": ("all_gather", 1, True),
        "_allgather_base_": ("all_gather", 0, False),
        "allgather_coalesced_": ("all_gather", 1, True),
        "allgather_into_tensor_coalesced_": ("all_gather", 0, False),
        "reduce_scatter_": ("reduce_scatter", 0, True),
        "_reduce_scatter_base_": ("reduce_scatter", 1, False),
        "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1, False),
        "broadcast_": ("broadcast", 0, False),
        "reduce_": ("reduce", 0, False),
        "gather_": ("gather", 1, True),
        "gather_into_tensor_": ("gather", 1, True),
        "scatter_": ("scatter", 0, True),
        "alltoall_": ("all_to_all", 1, False),
        "alltoall_base_": ("all_to_all", 1, False),
        "barrier": ("barrier", -1, False),
        "send": ("send", 0, False),
        "recv_": ("recv", 0, False),
        "recv_any_source_": ("recv", 0, False),
    }
)
"""Of each operator: its collective, its argument that holds the vector, or a rank's share of it."""

_ROOTS: Mapping[str, int] = MappingProxyType(
    {
        "broadcast_": 2,
        "reduce_": 3,
        "gather_": 3,
        "gather_into_tensor_": 3,
        "scatter_": 3,
        "send": 2,
        "recv_": 2,
    }
)
"""The argument that is the root or the peer."""

_AS = MappingProxyType({"reduce_scatter": ("reduce_scatter", "all_reduce")})
"""Under which kinds gloo shows its work, where that is not the call's own: it reduces all."""


def calls_of(found: Profiled, groups: Groups) -> tuple[list[Call], list[str]]:
    """The calls of a rank in order of begin, and what the trace does not tell of them."""
    kernels = [one for one in found.device if one.is_kernel and communicates(one)]
    if kernels:
        calls = [_of_kernel(one, found, groups, Within.of(found.spans)) for one in kernels]
        return calls, []
    calls = list(_of_host(found, groups))
    untold: list[str] = []
    on_device = [one for one in found.spans if not one.name.startswith("gloo:")]
    if on_device and calls:
        untold.append("when its calls ran on the device: their time is that of their issue")
    return calls, untold


def communicates(kernel: Slice) -> bool:
    """Whether a kernel is one of NCCL or RCCL."""
    name = kernel.name.lower()
    return "nccl" in name or "rccl" in name or bool(kernel.args.collective)


def _of_kernel(kernel: Slice, found: Profiled, groups: Groups, spans: Within) -> Call:
    """A kernel as a call: by its own arguments, else by the span on the host that launched it."""
    args, name = kernel.args, kernel.name
    correlation = whole(args.correlation, -1)
    if not args.collective and correlation in found.launched:
        span = spans.find(*found.launched[correlation])
        if span is not None:
            args, name = span.args, span.name
    group = groups.of(args, "nccl")
    kind = kind_of(str(args.collective)) or kind_of(name) or "all_reduce"
    members = max(1, len(group.ranks))
    count, dtype, shapes = _vector(kind, args, members)
    return Call(
        kind=kind,
        group=group,
        nbytes=count * item_bytes(dtype),
        begin=kernel.begin,
        end=kernel.end,
        stream=f"stream {kernel.thread[1]}",
        dtype=dtype,
        shapes=shapes,
        sequence=whole(args.sequence, -1),
        issued=found.launched.get(correlation, ((), 0))[1],
    )


def _vector(kind: str, args: Args, members: int) -> tuple[int, str, tuple[tuple[int, ...], ...]]:
    """Elements of the whole vector, their dtype, and the shapes of what goes in."""
    if args.collective:
        into, out_of = whole(args.elements_in), whole(args.elements_out)
        return vector_elements(kind, into, out_of, members), str(args.dtype), ((into,),)
    shapes = tuple(_shapes(args.dims))
    return vector_elements(kind, sum(map(elements, shapes)), 0, members), _dtype(args), shapes


def _of_host(found: Profiled, groups: Groups) -> Iterator[Call]:
    """The backend's spans as calls, each with the operator that it is the work of."""
    operators: dict[str, list[Slice]] = {}
    for one in found.calls:
        kind, _, _ = _VECTORS.get(one.name.removeprefix("c10d::"), ("", 0, False))
        for shown in _AS.get(kind, (kind,)):
            operators.setdefault(shown, []).append(one)
    used: set[int] = set()
    for span in found.spans:
        waiting = operators.get(kind_of(span.name), [])
        while waiting and id(waiting[0]) in used:
            waiting.pop(0)
        operator = None
        if waiting and waiting[0].begin <= span.begin:
            operator = waiting.pop(0)
            used.add(id(operator))
        yield _of_span(span, operator, groups)


def _of_span(span: Slice, operator: Slice | None, groups: Groups) -> Call:
    backend = span.name.partition(":")[0].lower()
    group = groups.of(span.args, backend)
    members, dtype = max(1, len(group.ranks)), _dtype(span.args)
    kind, shapes, peer = kind_of(span.name), tuple(_shapes(span.args.dims)), -1
    count = vector_elements(kind, sum(map(elements, shapes)), 0, members)
    if operator is not None:
        name = operator.name.removeprefix("c10d::")
        kind, argument, is_share = _VECTORS[name]
        dims = operator.args.dims
        if isinstance(dims, list) and 0 <= argument < len(dims):
            shapes = tuple(_shapes(dims[argument]))
            count = sum(map(elements, shapes)) * (members if is_share else 1)
        peer = _root(operator.args.inputs, _ROOTS.get(name, -1))
        dtype = dtype or _dtype(operator.args)
    return Call(
        kind=kind or "all_reduce",
        group=group,
        nbytes=0 if kind == "barrier" else count * item_bytes(dtype),
        begin=span.begin,
        end=span.end,
        stream=_stream(group, backend),
        dtype=dtype,
        shapes=shapes,
        peer=peer,
        issued=operator.begin if operator is not None else 0,
    )


def _stream(group: Group, backend: str) -> str:
    return group.name or backend


def _shapes(dims: Any) -> Iterator[tuple[int, ...]]:
    """The shapes in an argument: of a tensor, or of a list of them however deep."""
    if not isinstance(dims, list) or not dims:
        return
    if all(isinstance(one, int) for one in dims):
        yield tuple(dims)
        return
    for one in dims:
        yield from _shapes(one)


def _dtype(args: Args) -> str:
    """The dtype of the first argument that is a tensor."""
    types = args.types if isinstance(args.types, list) else []
    return next((one for one in types if isinstance(one, str) and item_bytes(one)), "")


def _root(inputs: Any, at: int) -> int:
    if at < 0 or not isinstance(inputs, list) or at >= len(inputs):
        return -1
    return whole(inputs[at], -1)
