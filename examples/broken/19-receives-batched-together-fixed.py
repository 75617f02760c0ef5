# The right twin of 19-receives-batched-together.py: it waits for what it needs next, and for the
# rest when that is needed.
# run: torchrun --nproc-per-node 3 examples/broken/19-receives-batched-together-fixed.py
# finds: nothing

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
    requests[0].wait()
    dist.send(activation * 2, dst=2)
    requests[1].wait()
    dist.send(gradient, dst=0)
else:
    dist.recv(activation, src=1)
    dist.send(activation * 3, dst=1)
print(f"rank {rank} is done")
assert rank == 2 or (gradient == 6).all()
dist.barrier()
dist.destroy_process_group()
