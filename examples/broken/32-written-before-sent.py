# pytorch/tutorials#3009: a tensor is overwritten between isend and the wait for it, so that the
# peer receives the new values, or some of both.
# run: torchrun --nproc-per-node 2 examples/broken/32-written-before-sent.py
# finds: race at line 18 on rank 0; ranks 0

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
    activation.fill_(2.0)  # the next micro-batch
    request.wait()
else:
    time.sleep(0.5)
    received = torch.zeros_like(activation)
    dist.recv(received, src=0)
    wrong = int((received != 1).sum())
    print(f"{wrong} elements are of the next micro-batch")
dist.barrier()
dist.destroy_process_group()
