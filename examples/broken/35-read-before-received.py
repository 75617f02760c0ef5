# the documentation of torch.distributed (isend and irecv): a tensor is read between irecv and the
# wait for it, and has its old values still.
# run: torchrun --nproc-per-node 2 examples/broken/35-read-before-received.py
# finds: race at line 20 on rank 1; ranks 1

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
    total = received.sum()
    request.wait()
    print(f"sum {total.item():.0f}")
dist.barrier()
dist.destroy_process_group()
