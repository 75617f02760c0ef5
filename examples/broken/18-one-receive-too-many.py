# NVIDIA/nccl#2130: a batch of sends and receives has one receive more on rank 0 than rank 1 has
# sends.
# run: torchrun --nproc-per-node 2 examples/broken/18-one-receive-too-many.py
# finds: missing at line 19 or 20 on rank 0; ranks 1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
peer = 1 - rank
chunks = 3 if rank == 0 else 2  # of 3, rounded up here and down there
sent = [torch.full((1000,), 10.0 * rank + one) for one in range(2 if rank == 0 else chunks)]
received = [torch.zeros(1000) for _ in range(chunks if rank == 0 else 2)]
batch = [dist.P2POp(dist.isend, one, peer) for one in sent]
batch += [dist.P2POp(dist.irecv, one, peer) for one in received]
for request in dist.batch_isend_irecv(batch):
    request.wait()
print(f"rank {rank} has {[one[0].item() for one in received]}")
dist.destroy_process_group()
