# The right twin of 30-destroyed-before-received.py: the send is waited for, and all meet before
# they leave.
# run: torchrun --nproc-per-node 2 examples/broken/30-destroyed-before-received-fixed.py
# finds: nothing

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
    request.wait()
else:
    time.sleep(2)  # the computation of this stage
    received = torch.zeros_like(output)
    dist.recv(received, src=0)
    print(f"received {received[-1].item():.0f}")
    assert (received == 3).all()
dist.barrier()
dist.destroy_process_group()
