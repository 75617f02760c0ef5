# pytorch/pytorch#102355: an example in PyTorch's own documentation sent whole numbers and received
# them as floats, as no dtype was given. As many bytes arrive, and they mean something else.
# run: torchrun --nproc-per-node 2 examples/broken/73-numbers-as-floats.py
# finds: mismatch at line 17 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
sent = torch.arange(2, dtype=torch.int32) + 2 * rank
received = torch.randn(2)
following, before = (rank + 1) % world, (rank - 1) % world
both = [dist.P2POp(dist.isend, sent, following), dist.P2POp(dist.irecv, received, before)]
for work in dist.batch_isend_irecv(both):
    work.wait()
print(f"rank {rank} received {received.tolist()}")
dist.barrier()
dist.destroy_process_group()
