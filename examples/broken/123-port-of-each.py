# pytorch/pytorch#53395: each rank looks for a free port and waits there. They never meet, and
# init_process_group waits for half an hour.
# run: torchrun --nproc-per-node 2 examples/broken/123-port-of-each.py
# finds: mismatch at line 19 on ranks 0,1; ranks 0,1

import os
import socket

import torch.distributed as dist


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


os.environ["MASTER_PORT"] = str(free_port())
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
print(f"rank {dist.get_rank()} is there")
dist.barrier()
dist.destroy_process_group()
