"""The backend ``steptime`` of torch.distributed, registered when this package is imported.

Where steptime is installed torch registers it by itself (``steptime.autoload``).
``torch.distributed.init_process_group("steptime")`` or ``("cpu:steptime,cuda:nccl")`` then makes
groups whose ranks share memory where they share a host.
"""

from typing import Any

import torch.distributed as dist
from torch import Tensor

from steptime.backend.data_parallel import data_parallel
from steptime.backend.host import empty
from steptime.backend.open import open_group
from steptime.backend.process_group import NAME, SteptimeGroup
from steptime.backend.reduction import Reduction, custom
from steptime.backend.selection import Options
from steptime.backend.shared import shared
from steptime.errors import UsageError
from steptime.world.compat import CallOptions

__all__ = [
    "NAME",
    "Options",
    "Reduction",
    "all_reduce",
    "custom",
    "data_parallel",
    "empty",
    "shared",
]

dist.Backend.register_backend(NAME, open_group, extended_api=True, devices=["cpu"])


def all_reduce(tensor: Tensor, op: Reduction, group: Any = None, *, async_op: bool = False) -> Any:
    """``torch.distributed.all_reduce`` by any Reduction, such as ``custom("name", function)``.

    ``tensor``, of any shape, on the CPU, is reduced in place over ``group``, by default all ranks.
    Returns a Work to wait for where ``async_op``, else None.

    Raises UsageError when the group is not of this backend, and what its collectives raise.
    """
    chosen = dist.group.WORLD if group is None else group
    if not isinstance(chosen, SteptimeGroup):
        raise UsageError(
            "steptime.backend.all_reduce needs a group of the backend steptime: make it with "
            'init_process_group("steptime") or new_group(backend="steptime")'
        )
    work = chosen.all_reduce_by([tensor], op, CallOptions(asyncOp=async_op))
    return work if async_op else None
