"""Scripts as users write them: none imports steptime. They take their backend from BACKEND."""

import os
import shutil
import site
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

START = """
import os, sys, torch, torch.distributed as dist
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
"""

PATTERNS = (
    START
    + """
from torch.distributed import _functional_collectives as functional
from torch.distributed.fsdp import fully_shard
t, parts = torch.ones(1000), [torch.zeros(1000) for _ in range(size)]
dist.all_gather(parts, t)
dist.broadcast(t, 0)
dist.reduce(t, 1)
dist.gather(t, parts if rank == 0 else None, dst=0)
dist.scatter(t, parts if rank == 1 else None, src=1)
dist.all_to_all_single(torch.zeros(1000), t)
if rank == 0:
    dist.send(t, 1)
else:
    dist.recv(t, 0)
both = [dist.P2POp(dist.isend, t, 1 - rank), dist.P2POp(dist.irecv, parts[0], 1 - rank)]
for work in dist.batch_isend_irecv(both):
    work.wait()
dist.all_reduce(t, group=dist.new_group([0, 1]))
dist.all_reduce(t, dist.ReduceOp.MAX, async_op=True).wait()
functional.all_reduce(t, "max", dist.group.WORLD) + 1
dist.barrier()
model = fully_shard(torch.nn.Linear(10, 100, bias=False))
model(torch.ones(1, 10)).sum().backward()
dist.destroy_process_group()
"""
)
"""Calls whose kinds and bytes PATTERN_CALLS says."""

PATTERN_CALLS = [
    ("all_gather", 8000),
    ("broadcast", 4000),
    ("reduce", 4000),
    ("gather", 8000),
    ("scatter", 8000),
    ("all_to_all", 4000),
    ("message", 4000),
    ("send", 4000),
    ("recv", 4000),
    ("all_reduce", 4000),
    ("all_reduce", 4000),
    ("all_reduce", 4000),
    ("barrier", 0),
    ("all_gather", 4000),
    ("reduce_scatter", 4000),
]

DDP = (
    START
    + """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(100, 100, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.ones(40, 100), batch_size=4)
for batch in data:
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss", loss.item().hex(), sys.argv[1:])
dist.destroy_process_group()
sys.exit(int(sys.argv[1]))
"""
)
"""Ten steps of DDP with one bucket of 40,000 bytes; ends with the code that it is given."""

STORM = (
    START
    + """
import time, weakref
t = torch.zeros(10)
for _ in range(4000):
    dist.all_reduce(t)
t = torch.zeros(1000)
seen = weakref.ref(t)
work = dist.all_reduce(t, async_op=True)
work.wait()
del t, work
dist.barrier()
until = time.time() + 60
while seen() is not None and time.time() < until:  # the threads that end calls have it for a while
    time.sleep(0.01)
print("kept" if seen() is not None else "free")
dist.destroy_process_group()
"""
)
"""Calls in quick succession, where gloo's threads free tensors while the next call is made."""

KILLED = (
    START
    + """
import signal
for _ in range(100):
    dist.all_reduce(torch.zeros(10))
open(os.path.join(sys.argv[1], str(rank)), "w").close()
while len(os.listdir(sys.argv[1])) < size:  # who hears of a death in a call ends in good order
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""
)
"""Takes an empty folder, in which the ranks tell one another that they made their calls."""

ALONE = """
import torch
weight = torch.zeros(10, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    weight.square().sum().backward()
    optimizer.step()
"""

OF_A_LIBRARY = """
import os, sys, torch, torch.distributed as dist
from datetime import timedelta

class Nameless(dist.ProcessGroup):
    def __init__(self, gloo):
        super().__init__(gloo.rank(), gloo.size())
        self.gloo = gloo
    @property
    def group_name(self):
        raise ValueError("it has no name")
    def size(self):
        return self.gloo.size()
    def allreduce(self, tensors, options=None):
        return self.gloo.allreduce(tensors, dist.AllreduceOptions())

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.FileStore(os.environ["STORE"], size)
group = Nameless(dist.ProcessGroupGloo(store, rank, size, timedelta(seconds=300)))
weight = torch.ones(10, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    (weight.square().sum() * (1 + rank)).backward()
    group.allreduce([weight.grad]).wait()
    optimizer.step()
    optimizer.zero_grad()
"""
"""A group that torch did not make and does not know, and that has no name, as torchft has them."""

FORKING = (
    START
    + """
for _ in range(3):
    dist.all_reduce(torch.zeros(10))
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
batches = torch.utils.data.DataLoader(torch.zeros(8), batch_size=2, num_workers=1)
for _ in batches:
    dist.all_reduce(torch.zeros(10))
dist.destroy_process_group()
"""
)
"""Seven calls, with children that call nothing."""


def installed(folder: Path) -> dict[str, str]:
    """The environment of scripts for whom this very checkout is installed, by a folder of links."""
    about = folder / "steptime-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: steptime\nVersion: 0\n")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n{name} = {at}" for group in points for name, at in points[group].items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


MIXED = (
    START
    + """
from torch.nn.parallel import DistributedDataParallel
found = [None, None]
dist.all_gather_object(found, "x" * (10 + rank))
dist.broadcast_object_list(found, 1)
model = DistributedDataParallel(torch.nn.Linear(100, 100, bias=False))
for _ in range(2):
    model(torch.ones(4, 100)).sum().backward()
works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(3)]
for work in works:
    work.wait()
with dist._coalescing_manager():
    dist.all_reduce(torch.ones(5))
    dist.all_reduce(torch.ones(7))
dist.barrier(group=dist.new_group([0, 1]))
dist.destroy_process_group()
"""
)
"""Objects, DDP, asynchronous and coalesced calls, and a sub-group."""


def python_with_startup(folder: Path) -> Path:
    """A Python of its own that has what this one has, and steptime's start-up file beside."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = [ROOT / "src", *map(Path, site.getsitepackages())]
    (packages / "a.pth").write_text("".join(f"{path}\n" for path in here))
    shutil.copy(ROOT / "src" / "steptime.pth", packages)
    return folder / "bin" / "python"


SPAWNING = """
import os, sys, torch, torch.distributed as dist
def main(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{port}", rank=rank, world_size=2)
    batches = torch.utils.data.DataLoader(
        torch.zeros(4, 10), num_workers=1, multiprocessing_context="spawn"
    )
    for batch in batches:
        dist.all_reduce(batch)
    dist.destroy_process_group()
if __name__ == "__main__":
    os.chdir("..")
    torch.multiprocessing.spawn(main, (sys.argv[1],), nprocs=2)
"""
"""Starts its ranks itself, from another folder than its own: four calls a rank."""


RAISING = (
    START
    + """
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
dist.all_reduce(torch.zeros(10), group=mesh.get_group("tp"))
dist.barrier(group=mesh.get_group("tp"))
store = dist.distributed_c10d._get_default_store()
store.set(f"{rank} made its calls", "")
if rank == 1:
    store.wait(["0 made its calls"])  # its launcher ends the others at once
    torch.zeros(2).view(3)
dist.destroy_process_group()
"""
)
"""Rank 1 raises an error, in the last line but one; the calls before are of an axis of a mesh."""


STEPPING = (
    START
    + """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(100, 100, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
half = dist.new_group(list(range(size // 2)), backend="gloo")
for _ in range(6):
    model(torch.ones(4, 100)).sum().backward()
    if rank < size // 2:
        dist.all_reduce(torch.ones(10), group=half)
    optimizer.step()
dist.destroy_process_group()
"""
)
"""Five steps, in which the lower half of the ranks makes a call more."""

CLOSURES = """
import torch

model = torch.nn.Linear(300, 300)
searching = torch.optim.LBFGS(model.parameters(), max_iter=3)
other = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(40, 300)

def made():
    searching.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    return loss

for _ in range(5):
    searching.step(made)
    other.step(closure=made)
"""
"""Optimizers whose steps make their gradients themselves, one of them several times."""

FROM_ANY = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
for turn in range(4):
    if rank == 0:
        for number in range(world - 1):
            question = torch.zeros(5)
            if turn % 2:
                source = dist.recv(question)
            else:
                work = dist.irecv(question)
                work.wait()
                source = int(question[0])
            assert source == int(question[0])
            print(source, flush=True)
            dist.send(question, source)
    else:
        time.sleep(0.01 * ((rank + turn) % world))
        dist.send(torch.full((5,), float(rank)), 0)
        dist.recv(torch.zeros(5), 0)
dist.barrier()
"""
"""Rank 0 answers whoever asks first, and prints whom."""
