# dylanyunlon/Neuron_SP#73: barriers are put into the loop over micro-batches to find a hang, and
# the ranks run different numbers of micro-batches. The barrier of one meets the reduction of the
# other.
# run: torchrun --nproc-per-node 2 examples/broken/33-debug-barriers.py
# finds: mismatch at line 18 on rank 0, line 19 on rank 1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
micro_batches = 4 if rank == 0 else 3
gradient = torch.zeros(1000)
for _ in range(micro_batches):
    gradient += 1
    dist.barrier()  # debug: where does it hang?
dist.all_reduce(gradient)
if rank == 0:
    print(f"gradient {gradient[0].item():.0f}")
dist.destroy_process_group()
