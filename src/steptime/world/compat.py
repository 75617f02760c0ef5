"""Everything of torch.distributed that its public interface does not name, in one place.

What is imported here exists in torch 2.13; a new release of torch is met in this file alone.
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
"""What a caller names a reduction by; its ``op`` is one of the constants of RedOpType."""

RedOpType: Any = c10d.ReduceOp.RedOpType

GroupOptions = c10d._DistributedBackendOptions
"""What torch tells the creator of a group: store, rank, size, timeout and the ranks in it."""

UNSET_TIMEOUT = timedelta(milliseconds=-1)
"""The timeout in the options of a call that was given none."""


@dataclass(frozen=True)
class CallOptions:
    """The options of a call that was given none, by the names that torch's have in common."""

    asyncOp: bool = True  # noqa: N815
    reduceOp: Any = ReduceOp(RedOpType.SUM)  # noqa: N815, RUF009
    rootRank: int = 0  # noqa: N815
    timeout: timedelta = UNSET_TIMEOUT
    device: torch.device | None = None


def left_alone(function: Callable[P, R]) -> Callable[P, R]:
    """A function that torch.compile does not look into, nor into what it calls.

    What C++ calls back, the methods of a process group, runs while the compiler watches every
    Python frame. ``torch.compiler.disable`` does the same, at a microsecond a call.
    """
    skip = eval_frame._FrameAction.SKIP
    strategy = eval_frame._FrameExecStrategy(skip, skip)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function


def gloo(store: Store, rank: int, ranks: int, timeout: timedelta) -> Any:
    """A gloo group over the network, of no torch.distributed group, that meets in ``store``.

    Raises RuntimeError when the other ranks cannot be reached in time.
    """
    return c10d.ProcessGroupGloo(store, rank, ranks, timeout=timeout)


def nccl(store: Store, rank: int, ranks: int, timeout: timedelta) -> Any:
    """An NCCL group that meets in ``store``: the collectives of CUDA tensors."""
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
