# The right twin of 32-written-before-sent.py: the tensor is written after the wait.
# run: torchrun --nproc-per-node 2 examples/broken/32-written-before-sent-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
activation = torch.full((8_000_000,), 1.0)
dist.barrier()
if rank == 0:
    request = dist.isend(activation, dst=1)
    request.wait()
    activation.fill_(2.0)  # the next micro-batch
else:
    time.sleep(0.5)
    received = torch.zeros_like(activation)
    dist.recv(received, src=0)
    wrong = int((received != 1).sum())
    print(f"{wrong} elements are of the next micro-batch")
    assert wrong == 0
dist.barrier()
dist.destroy_process_group()
