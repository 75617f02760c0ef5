# the kernel ends a rank that needs too much memory, with signal 9: it says nothing, and the
# others wait for it, or are told that a connection was closed.
# run: torchrun --nproc-per-node 2 examples/broken/42-killed-by-the-kernel.py
# finds: died at line 16 on ranks 0,1; ranks 1

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(10):
    gradient = torch.ones(1000)
    dist.all_reduce(gradient)
    if rank == 1 and step == 5:
        os.kill(os.getpid(), signal.SIGKILL)
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
dist.destroy_process_group()
