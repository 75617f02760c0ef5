# The right twin of 20-two-groups-crossed.py: all ranks use the groups in one order.
# run: torchrun --nproc-per-node 2 examples/broken/20-two-groups-crossed-fixed.py
# finds: nothing

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


reduce_dense()
exchange_sparse()
print(f"rank {rank} has {outputs.tolist()}")
assert (gradients == world).all()
assert outputs.tolist() == [0.0, 1.0]
dist.barrier()
dist.destroy_process_group()
