"""What the benchmarks of a GPU share: being the one rank, on NCCL, of a world of one GPU."""

from collections.abc import Callable

import torch
import torch.distributed as dist


def on_one_gpu(work: Callable[[torch.device], None]) -> None:
    """Call ``work`` with the first GPU as that rank; say so and do nothing where there is none."""
    if not torch.cuda.is_available():
        print("skipped: no GPU is at hand")
        return
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=device)
    work(device)
    dist.destroy_process_group()
