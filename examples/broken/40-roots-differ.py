# the root of a broadcast is given as the rank within the node, or the rank itself: each rank
# believes to be the sender. All send, and nobody receives.
# run: torchrun --nproc-per-node 2 examples/broken/40-roots-differ.py
# finds: mismatch at line 15 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
weights = torch.randn(100)
dist.broadcast(weights, src=rank)
largest, smallest = weights.clone(), weights.clone()
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
same = torch.equal(largest, smallest)
print(f"rank {rank}: weights are {'the same' if same else 'different'}")
assert not same
dist.destroy_process_group()
