"""Compat: all private interfaces of torch.distributed that steptime uses, in one place.

They are as in torch 2.13 to 2.15; a new release of torch should need changes in this file alone, or
in ``world/autograd.py``, which has those of autograd.
With 2.11 and 2.12 all runs but the backend ``steptime``: its calls have other names there.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import overrides
from torch._C import _distributed_c10d as c10d
from torch._C._dynamo import eval_frame
from torch.distributed import distributed_c10d
from torch.utils import _python_dispatch

P = ParamSpec("P")
R = TypeVar("R")

ProcessGroup = c10d.ProcessGroup
Store = c10d.Store
PrefixStore = c10d.PrefixStore
HashStore = c10d.HashStore
Work = c10d.Work
Future: Any = torch._C.Future

ReduceOp: Any = c10d.ReduceOp
"""The reduction as a caller names it; its ``op`` is one of the constants of RedOpType."""

RedOpType: Any = c10d.ReduceOp.RedOpType

GroupOptions = c10d._DistributedBackendOptions
"""What torch passes to the creator of a group: store, rank, size, timeout, global ranks."""

all_gather_single: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single: Any = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)
"""What torch called ``all_gather_into_tensor`` and ``reduce_scatter_tensor`` before 2.13."""

UNSET_TIMEOUT = timedelta(milliseconds=-1)
"""The timeout in a call's options where the caller gave none."""


@dataclass(frozen=True)
class CallOptions:
    """A call's options where the caller gave none, with the fields that torch's have in common."""

    asyncOp: bool = True  # noqa: N815
    reduceOp: Any = ReduceOp(RedOpType.SUM)  # noqa: N815, RUF009
    rootRank: int = 0  # noqa: N815
    timeout: timedelta = UNSET_TIMEOUT
    device: torch.device | None = None


def left_alone(function: Callable[P, R]) -> Callable[P, R]:
    """Exclude a function, and what it calls, from torch.compile.

    C++ calls back the methods of a process group while the compiler watches every Python frame.
    ``torch.compiler.disable`` does the same, at a microsecond a call.
    """
    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function


def is_registered(group: Any) -> bool:
    """Whether torch.distributed has finished making a group, and knows it."""
    return group in distributed_c10d._world.pg_map


def timeout_of(store: Store) -> timedelta:
    """How long ``store`` waits for a key, which the type of Store does not tell."""
    return timedelta(seconds=store.timeout.total_seconds())  # type: ignore[attr-defined]


def nccl(store: Store, rank: int, ranks: int, timeout: timedelta) -> Any:
    """An NCCL group that connects through ``store``: the collectives of CUDA tensors."""
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = timeout
    backend = c10d.ProcessGroupNCCL(store, rank, ranks, options)
    group = c10d.ProcessGroup(store, rank, ranks)
    group._set_default_backend(c10d.ProcessGroup.BackendType.NCCL)
    group._register_backend(torch.device("cuda"), c10d.ProcessGroup.BackendType.NCCL, backend)
    return group


def has_nccl() -> bool:
    """Whether CUDA tensors can be communicated in this process."""
    return torch.cuda.is_available() and dist.is_nccl_available()


def redispatch(namespace: str, name: str) -> Callable[..., Any]:
    """The operator ``namespace.name`` as it is below a kernel of ours for the key BackendSelect.

    The result takes the keys in BELOW of the set that the kernel was given, and its arguments;
    while it runs the interpreter's lock is free.
    """
    call: Callable[..., Any] = getattr(
        getattr(torch.ops, namespace), name
    ).default._handle.redispatch_boxed
    return call


def ranks_of(group: Any) -> tuple[int, ...]:
    """The ranks of a group, by their numbers in the world; none where torch does not know it.

    It knows those that its own functions made. A library may make others, as torchft does, without
    any world: their own numbers are the ranks.
    """
    if not dist.is_initialized():
        return tuple(range(group.size()))
    try:
        return tuple(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):
        return ()


stream_of: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0)
"""The address of this thread's stream on the GPU of a number; 0: the default one.

``torch.cuda.current_stream`` makes an object of it, and takes forty times as long.
"""


def backend_of(group: Any) -> str:
    """The name of a group's backend; "cpu:gloo,cuda:nccl" where it differs between devices.

    A group opened as "cpu:gloo" calls itself "undefined", and from torch 2.15 on one of several
    backends "custom": they go by the device alone.
    """
    name = str(group.name())
    if name not in ("undefined", "custom"):
        return name
    by_device = {one.type: str(group._get_backend(one).name()) for one in group._device_types}
    names = set(by_device.values())
    if len(names) == 1:
        return names.pop()
    return ",".join(f"{device}:{one}" for device, one in sorted(by_device.items())) or name


def current_stream() -> tuple[int, int]:
    """The GPU that this thread uses, and the address of its stream there."""
    device: int = torch._C._cuda_getDevice()
    return device, stream_of(device)


SPARE_KEY = "DeferredInit"
"""A key of the dispatcher that nothing in torch uses, and that comes before all of tensors."""

BELOW: Any = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
"""The keys of kernels that come after one of ours, whether under BackendSelect or SPARE_KEY."""


def each_subclass(base: type, function: Callable[[type], None]) -> Callable[[], None]:
    """Call ``function`` for every class below ``base``, now or when it is made; the result ends it.

    C++ made ``base``: it leaves ``__init_subclass__`` to ``object``, where it does nothing.
    """
    known: list[type] = list(base.__subclasses__())
    while known:
        kind = known.pop()
        function(kind)
        known += kind.__subclasses__()
    base.__init_subclass__ = classmethod(function)  # type: ignore[assignment]

    def end() -> None:
        del base.__init_subclass__

    return end


_REDUCING_OPTIONS: tuple[Any, ...] = (
    c10d.AllreduceOptions,
    c10d.AllreduceCoalescedOptions,
    c10d.ReduceOptions,
    c10d.ReduceScatterOptions,
)


def watch_reductions(chosen: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``chosen`` with the reduction wherever Python sets a call's; the result ends it."""
    replaced = [(options, options.__dict__.get("reduceOp")) for options in _REDUCING_OPTIONS]

    def watched(given: Any) -> property:
        def choose(options: Any, reduction: Any) -> None:
            chosen(reduction)
            given.fset(options, reduction)

        return property(given.fget, choose)

    for options, given in replaced:
        if given is not None:
            options.reduceOp = watched(given)

    def end() -> None:
        for options, given in replaced:
            if given is not None:
                options.reduceOp = given

    return end


_REDUCTIONS = {value: name.lower() for name, value in RedOpType.__members__.items()}
REDUCTIONS_AT_ONCE: dict[int, str] = {
    id(None): "sum",  # C++ leaves it out
    **{id(value): name.lower() for name, value in vars(ReduceOp).items() if name.isupper()},
}
"""The names of the very objects that callers name, as ``dist.ReduceOp.SUM``, by their identity."""


def reduction_name(reduction: Any) -> str:
    """The name of a reduction, as "sum" or "avg"; None is a sum.

    A reduction that is none of torch's has the name that it gives itself, or none.
    """
    if (at_once := REDUCTIONS_AT_ONCE.get(id(reduction))) is not None:
        return at_once
    if isinstance(reduction, str):
        return str(reduction or "sum")
    known = _REDUCTIONS.get(getattr(reduction, "op", reduction))
    return str(known or getattr(reduction, "name", ""))


def dispatch_modes() -> list[Any]:
    """The modes that see the operators of this thread, the innermost last."""
    modes: list[Any] = _python_dispatch._get_current_dispatch_mode_stack()
    return modes


def function_modes() -> list[Any]:
    """The modes that see the functions of this thread, the innermost last."""
    modes: list[Any] = overrides._get_current_function_mode_stack()
    return modes


def observe_new_groups(around: Callable[[Sequence[int]], AbstractContextManager[None]]) -> Any:
    """Run every call that makes a group of all ranks' doing inside ``around`` of its ranks.

    A group that its own ranks make alone (``use_local_synchronization``) is none of these. The
    result ends that.
    """
    module = distributed_c10d
    before = module._new_group_with_tag

    def new_group(ranks: Sequence[int] | None = None, *arguments: Any, **options: Any) -> Any:
        if options.get("use_local_synchronization"):
            return before(ranks, *arguments, **options)
        with around(list(ranks) if ranks is not None else list(range(dist.get_world_size()))):
            return before(ranks, *arguments, **options)

    module._new_group_with_tag = new_group

    def end() -> None:
        module._new_group_with_tag = before

    return end


def source_of(work: Any) -> int:
    """The rank, within its group, that a Work has received from."""
    return int(work._source_rank())


def is_default_store(store: Store) -> bool:
    """Whether a store is that of all ranks by which the default group was made, or a part of it."""
    if not dist.is_initialized():
        return False
    return _whole(store) is _whole(distributed_c10d._get_default_store())


def _whole(store: Store) -> Store:
    """The store that a part of one belongs to."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def comm_hooks(wrapped: Any) -> list[Any]:
    """The functions by which a DistributedDataParallel communicates, instead of its own."""
    return [hook for hook, _ in wrapped._comm_hooks]


def is_joined(wrapped: Any) -> bool:
    """Whether a DistributedDataParallel is within ``Join``, where ranks may end early."""
    return bool(wrapped._join_config.enable)


SHARDED = "torch.distributed.fsdp._fully_shard._fsdp_state"
"""The module of FSDP2, which takes most of a second to import, as only some scripts do."""


SHARDING = "torch.distributed.fsdp._fully_shard._fsdp_param"
"""The module of FSDP2 that makes shards of parameters."""


def watch_sharding(
    sharded: Callable[[torch.Tensor, torch.Tensor], object],
) -> Callable[[], None]:
    """Call ``sharded`` whenever ``fully_shard`` has taken this rank's part of a parameter.

    With the parameter and that part; the result ends it. SHARDING must have been imported.
    """
    kind: Any = sys.modules[SHARDING].FSDPParam
    before = kind._init_sharded_param

    def init_sharded_param(made: Any, parameter: Any, *arguments: Any, **options: Any) -> None:
        before(made, parameter, *arguments, **options)
        sharded(parameter, made.sharded_param._local_tensor)

    kind._init_sharded_param = init_sharded_param

    def end() -> None:
        kind._init_sharded_param = before

    return end


def watch_sharded_forwards(
    begun: Callable[[torch.nn.Module, Any, Sequence[Any], Mapping[str, Any]], object],
) -> Callable[[], None]:
    """Call ``begun`` whenever a model under ``fully_shard`` runs forward; the result ends that.

    With the model, its state and its arguments. SHARDED must have been imported.
    """
    kind: Any = sys.modules[SHARDED].FSDPState
    before = kind._root_pre_forward

    def root_pre_forward(state: Any, module: Any, args: Any, kwargs: Any) -> Any:
        result = before(state, module, args, kwargs)
        if state._state_ctx.iter_forward_root is state:
            begun(module, state, args, kwargs)
        return result

    kind._root_pre_forward = root_pre_forward

    def end() -> None:
        kind._root_pre_forward = before

    return end


def _shard_groups(state: Any) -> Iterator[Any]:
    """The groups of parameters that ``fully_shard`` gathers at a time, of a model's state."""
    for one in state._state_ctx.all_states:
        for group in getattr(one, "_fsdp_param_groups", None) or [one._fsdp_param_group]:
            if group is not None:
                yield group


def ranks_of_shards(state: Any) -> tuple[int, ...]:
    """The ranks of the mesh over which ``fully_shard`` shards the model of such a state."""
    for group in _shard_groups(state):
        return tuple(int(rank) for rank in group.mesh_info.mesh.mesh.flatten())
    return ()


def shards_reduce(state: Any) -> bool:
    """Whether a model under ``fully_shard`` reduces the gradients of its next backward."""
    return all(group.reduce_grads for group in _shard_groups(state))


def loading_class() -> type:
    """The class whose ``fetch`` makes a DataLoader's batches of a dataset that has items."""
    from torch.utils.data._utils import fetch

    kind: type = fetch._MapDatasetFetcher
    return kind
