# 123-port-of-each, corrected: the port is the launcher's.
# run: torchrun --nproc-per-node 2 examples/broken/123-port-of-each-fixed.py
# finds: nothing

import os
import socket

import torch.distributed as dist


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


print(f"free beside it: {free_port()}")
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
print(f"rank {dist.get_rank()} is there")
dist.barrier()
dist.destroy_process_group()
