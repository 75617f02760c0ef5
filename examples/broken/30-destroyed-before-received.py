# pytorch/PiPPy PR #1139: a rank sends its last tensor without waiting, destroys its process group
# and ends. Its peer, which is slower, then finds nobody to receive from.
# run: torchrun --nproc-per-node 2 examples/broken/30-destroyed-before-received.py
# finds: died|missing|race at line 17 or 23 on rank 0, line 21 on rank 1; ranks 0

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
output = torch.full((8_000_000,), 3.0)
dist.barrier()
if rank == 0:
    request = dist.isend(output, dst=1)
else:
    time.sleep(2)  # the computation of this stage
    received = torch.zeros_like(output)
    dist.recv(received, src=0)
    print(f"received {received[-1].item():.0f}")
dist.destroy_process_group()
