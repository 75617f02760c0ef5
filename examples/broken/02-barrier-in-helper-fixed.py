# The right twin of 02-barrier-in-helper.py: in evaluation the helper has no barrier.
# run: torchrun --nproc-per-node 2 examples/broken/02-barrier-in-helper-fixed.py
# finds: nothing

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()


def load_examples(evaluate=False):
    if rank != 0 and not evaluate:
        dist.barrier()  # until rank 0 has written the cache
    time.sleep(0.1 if evaluate else 0.2)
    if rank == 0 and not evaluate:
        dist.barrier()
    return torch.arange(10.0)


total = load_examples().sum()
dist.all_reduce(total)
if rank == 0:
    score = load_examples(evaluate=True).mean()
    print(f"evaluation {score:.1f}")
    assert score == 4.5
assert total == 90
dist.barrier()
dist.destroy_process_group()
