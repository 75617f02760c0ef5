# The right twin of 18-one-receive-too-many.py: both sides derive their batches from the same list
# of chunks.
# run: torchrun --nproc-per-node 2 examples/broken/18-one-receive-too-many-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
peer = 1 - rank
chunks = 3
sent = [torch.full((1000,), 10.0 * rank + one) for one in range(2 if rank == 0 else chunks)]
received = [torch.zeros(1000) for _ in range(chunks if rank == 0 else 2)]
batch = [dist.P2POp(dist.isend, one, peer) for one in sent]
batch += [dist.P2POp(dist.irecv, one, peer) for one in received]
for request in dist.batch_isend_irecv(batch):
    request.wait()
print(f"rank {rank} has {[one[0].item() for one in received]}")
assert [one[0].item() for one in received] == [10.0 * peer + one for one in range(len(received))]
dist.barrier()
dist.destroy_process_group()
