# pytorch/PiPPy#969: a stage of a pipeline posts the receives from both its neighbours in one
# batch and waits for all. The later stage only sends after it has received what this one computes
# from the earlier.
# run: torchrun --nproc-per-node 3 examples/broken/19-receives-batched-together.py
# finds: deadlock at line 20 or 22 on rank 1, line 26 on rank 2; ranks 1,2

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
activation, gradient = torch.zeros(4096), torch.zeros(4096)
if rank == 0:
    dist.send(torch.ones(4096), dst=1)
    dist.recv(gradient, src=1)
elif rank == 1:
    batch = [dist.P2POp(dist.irecv, activation, 0), dist.P2POp(dist.irecv, gradient, 2)]
    requests = dist.batch_isend_irecv(batch)
    for request in requests:
        request.wait()
    dist.send(activation * 2, dst=2)
    dist.send(gradient, dst=0)
else:
    dist.recv(activation, src=1)
    dist.send(activation * 3, dst=1)
print(f"rank {rank} is done")
dist.destroy_process_group()
