# tokens go to experts by an all_to_all, and each rank expects as many from the others as it sends
# them. Ranks disagree about what goes between them: gloo gives them some of what was sent.
# run: torchrun --nproc-per-node 2 examples/broken/44-splits-disagree.py
# finds: mismatch at line 18 on ranks 0,1; ranks 0,1

import os

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
tokens = torch.tensor([[2, 3], [4, 1]])  # of each rank for the experts of each
sends = tokens[rank].tolist()
receives = sends
mine = torch.arange(float(sum(sends))) + 100 * rank
got = torch.empty(sum(receives))
dist.all_to_all_single(got, mine, receives, sends)
print(rank, got.tolist())
dist.barrier()
dist.destroy_process_group()
