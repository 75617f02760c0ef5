"""Compat: all private interfaces of torch.distributed that steptime uses, in one place.

They are as in torch 2.13; a new release of torch should need changes in this file alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._C._dynamo import eval_frame

P = ParamSpec("P")
R = TypeVar("R")

ProcessGroup = c10d.ProcessGroup
Store = c10d.Store
PrefixStore = c10d.PrefixStore
Work = c10d.Work

ReduceOp: Any = c10d.ReduceOp
"""The reduction as a caller names it; its ``op`` is one of the constants of RedOpType."""

RedOpType: Any = c10d.ReduceOp.RedOpType

GroupOptions = c10d._DistributedBackendOptions
"""What torch passes to the creator of a group: store, rank, size, timeout, global ranks."""

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


def gloo(store: Store, rank: int, ranks: int, timeout: timedelta) -> Any:
    """A gloo group over the network that connects through ``store``, outside torch.distributed.

    Raises RuntimeError when the other ranks cannot be reached in time.
    """
    return c10d.ProcessGroupGloo(store, rank, ranks, timeout=timeout)


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
