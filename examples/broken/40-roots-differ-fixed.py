# The right twin of 40-roots-differ.py: the root is the same on all ranks.
# run: torchrun --nproc-per-node 2 examples/broken/40-roots-differ-fixed.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(rank)
weights = torch.randn(100)
dist.broadcast(weights, src=0)
largest, smallest = weights.clone(), weights.clone()
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
same = torch.equal(largest, smallest)
print(f"rank {rank}: weights are {'the same' if same else 'different'}")
assert same
dist.barrier()
dist.destroy_process_group()
