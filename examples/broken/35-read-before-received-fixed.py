# The right twin of 35-read-before-received.py: the tensor is read after the wait.
# run: torchrun --nproc-per-node 2 examples/broken/35-read-before-received-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
if rank == 0:
    time.sleep(0.5)
    dist.send(torch.ones(1000), dst=1)
else:
    received = torch.zeros(1000)
    request = dist.irecv(received, src=0)
    request.wait()
    total = received.sum()
    print(f"sum {total.item():.0f}")
    assert total == 1000
dist.barrier()
dist.destroy_process_group()
