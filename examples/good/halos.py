# A ring of halos, asynchronous, with work between post and wait; groups in order; a late sum.
# run: torchrun --nproc-per-node 4 examples/good/halos.py
# finds: nothing

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
halves = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
field = torch.full((1000,), float(rank))
for _ in range(5):
    left, right = torch.empty(10), torch.empty(10)
    edges = field[:10].clone(), field[-10:].clone()
    before, after = (rank - 1) % world, (rank + 1) % world
    requests = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, edges[1], after),
            dist.P2POp(dist.irecv, left, before),
            dist.P2POp(dist.isend, edges[0], before),
            dist.P2POp(dist.irecv, right, after),
        ]
    )
    inner = field[10:-10] * 0.5 + 0.5  # while the halos are on their way
    for request in requests:
        request.wait()
    field = torch.cat([(edges[0] + left) / 2, inner, (edges[1] + right) / 2])
total = field.sum()
handle = dist.all_reduce(total, group=halves[rank // 2], async_op=True)
largest = field.max()
handle.wait()
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
if rank == 0:
    print(f"sum of a half {total:.1f}, largest {largest:.2f}")
assert largest <= world
dist.barrier()
dist.destroy_process_group()
