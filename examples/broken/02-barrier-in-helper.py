# huggingface/transformers#998 and PR #1081: the helper that loads the data lets rank 0 write its
# cache first, with a barrier for each side. Evaluation calls it on rank 0 alone, which waits in
# that barrier for a rank that has ended.
# run: torchrun --nproc-per-node 2 examples/broken/02-barrier-in-helper.py
# finds: missing at line 22 on rank 0; ranks 1

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()


def load_examples(evaluate=False):
    if rank != 0:
        dist.barrier()  # until rank 0 has written the cache
    time.sleep(0.1 if evaluate else 0.2)
    if rank == 0:
        dist.barrier()
    return torch.arange(10.0)


total = load_examples().sum()
dist.all_reduce(total)
if rank == 0:
    score = load_examples(evaluate=True).mean()
    print(f"evaluation {score:.1f}")
dist.destroy_process_group()
