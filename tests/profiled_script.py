"""A script that profiles itself and dumps its flight recorder, and what it is known to call.

Each step calls every collective once, with a DDP backward of a layer of 16 by 16.
"""

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, folder = dist.get_rank(), sys.argv[1]
model = DistributedDataParallel(torch.nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    model(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_gather([torch.empty(10) for _ in range(2)], torch.ones(10))
    c10d_all_gather(torch.empty(20, dtype=torch.int64), torch.ones(10, dtype=torch.int64))
    c10d_reduce_scatter(torch.empty(10), torch.ones(20))
    dist.broadcast(torch.ones(7, dtype=torch.float64), 1)
    dist.all_to_all_single(torch.empty(8), torch.ones(8))
    if rank == 0:
        dist.send(torch.ones(5), 1)
    else:
        dist.recv(torch.ones(5), 0)
    dist.reduce(torch.ones(3), 0)
    dist.gather(torch.ones(3), [torch.ones(3) for _ in range(2)] if rank == 0 else None, 0)
    dist.scatter(torch.ones(3), [torch.ones(3) for _ in range(2)] if rank == 1 else None, 1)
    dist.barrier()


c10d_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
c10d_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
    on_trace_ready=lambda ready: ready.export_chrome_trace(f"{folder}/profile/rank{rank}.json"),
) as profiler:
    for _ in range(4):
        step()
        profiler.step()
dump = c10d._dump_fr_trace_json(includeCollectives=True, onlyActive=False)
dump = dump if isinstance(dump, bytes) else dump.encode()
open(f"{folder}/dump/rank{rank}.json", "wb").write(dump)
dump = c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False)
open(f"{folder}/pickled/rank{rank}.pickle", "wb").write(dump)
dist.destroy_process_group()
"""

GRADIENT = 4 * (16 * 16 + 16)
CALLS = {
    ("all_reduce", GRADIENT),
    ("all_gather", 80),
    ("all_gather", 160),
    ("reduce_scatter", 80),
    ("broadcast", 56),
    ("all_to_all", 32),
    ("message", 20),
    ("reduce", 12),
    ("gather", 24),
    ("scatter", 24),
    ("barrier", 0),
}
"""Kind and bytes of the whole vector of each call of a step."""
