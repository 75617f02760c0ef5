# meta-pytorch/torchrec PR #4149: two process groups over the same ranks are used in a different
# order on different ranks. Each rank waits in one group for the other, which waits in the other
# group.
# run: torchrun --nproc-per-node 2 examples/broken/20-two-groups-crossed.py
# finds: deadlock at line 21 on rank 0, line 25 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
dense_group = dist.new_group(list(range(world)))
sparse_group = dist.new_group(list(range(world)))
gradients = torch.ones(1000)
inputs, outputs = torch.full((world,), float(rank)), torch.zeros(world)


def reduce_dense():
    dist.all_reduce(gradients, group=dense_group)


def exchange_sparse():
    dist.all_to_all_single(outputs, inputs, group=sparse_group)


if rank == 0:
    reduce_dense()
    exchange_sparse()
else:
    exchange_sparse()
    reduce_dense()
print(f"rank {rank} has {outputs.tolist()}")
dist.destroy_process_group()
