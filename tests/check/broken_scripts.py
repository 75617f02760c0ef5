"""Scripts that hang, differ or die; the line that is to blame ends in ``# here`` or ``# there``."""

from recorded_scripts import START

SOUND = (
    START
    + """
for _ in range(3):
    dist.all_reduce(torch.ones(3))
halves = [dist.new_group([one]) for one in range(size)]
if rank == 0:
    dist.send(torch.ones(2), 1)
else:
    dist.recv(torch.ones(2), 0)
sys.stdout.write(f"sound {sys.argv[1:]}\\n")  # one write: lines of ranks that are unbuffered mix
dist.destroy_process_group()
"""
)

BOTH_SEND = (
    START
    + """
big = torch.ones(4_000_000)
dist.send(big, 1 - rank)  # here
dist.recv(big, 1 - rank)
"""
)

BOTH_RECEIVE = (
    START
    + """
dist.recv(torch.ones(4), 1 - rank)  # here
dist.send(torch.ones(4), 1 - rank)
"""
)

LETS_GO = (
    START
    + """
for step in range(6):
    own, other = torch.ones(8192), torch.empty(8192)
    dist.batch_isend_irecv([  # begun
        dist.P2POp(dist.isend, own, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)])
    del own, other
    if rank:
        dist.send(torch.ones(8192), 0)  # here
    else:
        dist.recv(torch.empty(8192), 1)  # here
dist.destroy_process_group()
"""
)

BOTH_POLL = (
    START
    + """
import time
received = torch.ones(4)
work = dist.irecv(received, 1 - rank)  # here
while not work.is_completed():
    time.sleep(0.01)
dist.send(torch.ones(4), 1 - rank)
"""
)

FUTURES_POLLED = (
    START
    + """
import time
groups = [dist.new_group([0, 1]) for _ in range(2)]
for group in groups if rank else reversed(groups):
    future = dist.all_reduce(torch.ones(4), group=group, async_op=True).get_future()  # here
    after = future.then(lambda done: done.value())
    while not after.done():
        time.sleep(0.01)
"""
)

POLLED = (
    START
    + """
import time
received = [torch.ones(4), torch.ones(4), torch.ones(4)]
if rank == 0:
    left = {source: dist.irecv(received[source], source) for source in (1, 2)}  # here
    while left:  # it answers rank 1 when rank 2 has spoken
        for source in [one for one, work in left.items() if work.is_completed()]:
            left.pop(source).wait()
            if source == 2:
                dist.send(torch.ones(4), 1)
        time.sleep(0.01)
elif rank == 1:
    dist.recv(received[0], 0)
    dist.send(torch.ones(4), 0)
else:
    time.sleep(12)
    dist.send(torch.ones(4), 0)  # there
dist.barrier()
"""
)

POLLED_WHILE_IT_COMPUTES = (
    START
    + """
import time
received, other = torch.ones(4), torch.ones(400, 400)
if rank == 0:
    work, until = dist.irecv(received, 1), time.monotonic() + 14
    while time.monotonic() < until and not work.is_completed():
        other = (other @ other).tanh()
    work.wait()
else:
    dist.send(received, 0)
dist.barrier()
"""
)

CROSSED = (
    START
    + """
one, other = dist.new_group([0, 1]), dist.new_group([0, 1])
if rank == 0:
    dist.all_reduce(torch.ones(3), group=one)  # here
dist.all_reduce(torch.ones(3), group=other)  # there
if rank == 1:
    dist.all_reduce(torch.ones(3), group=one)
"""
)

BRANCH = (
    START
    + """
dist.all_reduce(torch.ones(3))
if rank == 0:
    dist.barrier()  # here
dist.all_reduce(torch.ones(3))  # there
"""
)

SHAPES = (
    START
    + """
dist.barrier()
dist.all_reduce(torch.ones(3 + rank))  # here
"""
)

UNEVEN = (
    START
    + """
for _ in range(2 + rank):
    dist.all_reduce(torch.ones(3))  # here
"""
)

GROUPS = (
    START
    + """
if rank == 0:
    group = dist.new_group([0, 1])  # here
dist.barrier()  # there
"""
)

RAISES = (
    START
    + """
dist.barrier()
if rank == 1:
    raise ValueError("no such batch")  # there
dist.all_reduce(torch.ones(3))  # here
"""
)

KILLED = (
    START
    + """
import signal
dist.barrier()  # there
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(3))  # here
"""
)

EARLY = """
import os, sys
if os.environ["RANK"] == "1":
    sys.exit(7)
import torch, torch.distributed as dist
dist.init_process_group("gloo")
"""

LATE = (
    START
    + """
dist.barrier()
if rank == 0:
    while not os.path.exists(sys.argv[1]):  # there
        sum(range(1000))  # there
dist.barrier()  # here
dist.destroy_process_group()
"""
)

"""Rank 0 works until there is the file that it is given the name of."""

LOCKED = (
    START
    + """
import ctypes
lock, c = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
dist.barrier()
if rank == 0:
    c.pthread_mutex_lock(lock)
    c.pthread_mutex_lock(lock)  # there
dist.barrier()  # here
"""
)
"""Rank 0 hangs in C and holds the lock of the interpreter."""

LOST_BACKWARD = (
    START
    + """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(10, 10))
for step in range(3 + rank):
    model(torch.ones(2, 10)).sum().backward()  # here
"""
)

SPAWNING = """import signal, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, store, how):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for step in range(9):
        if rank == 1 and step == 6:
            [][step] if how == "raises" else signal.raise_signal(signal.SIGSEGV)  # there
        dist.all_reduce(torch.ones(8))  # here


if __name__ == "__main__":
    mp.spawn(work, sys.argv[1:], nprocs=2)
"""
"""Starts two ranks itself, of which one raises or is killed; it is given a file and which."""

FINALLY = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
try:
    if dist.get_rank():
        raise ValueError("a bad\\nbatch")  # there
    dist.all_reduce(torch.ones(3))
finally:
    dist.barrier()  # here
"""

BLOCKED = """
import datetime, os
import torch.distributed as dist

dist.init_process_group("gloo")
os.write(1, b"blocks\\n")
dist.HashStore().wait(["nobody sets it"], datetime.timedelta(minutes=10))
"""

KILLED_WAITING = """
import os, signal, threading, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3))
if dist.get_rank():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
else:
    time.sleep(2)
dist.all_reduce(torch.ones(3))  # here
"""
"""Rank 1 is killed while it waits for rank 0, which loses it later."""

RAISES_FIRST = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank():
    raise ValueError("no data")  # there
dist.all_reduce(torch.ones(3))  # here
"""
"""Rank 1 raises before it has called anything."""

REFUSED = (
    START
    + """
parts = [torch.ones(3)] * (dist.get_world_size() - 1)
dist.scatter(torch.empty(3), parts if rank == 0 else None, src=0)  # here
"""
)
"""The library does not take the call of rank 0, and says so of itself."""

OTHER_COUNTS = (
    START
    + """
from torch.nn.parallel import DistributedDataParallel
layers = [torch.nn.Linear(8, 8) for _ in range(2 - rank)]
DistributedDataParallel(torch.nn.Sequential(*layers))  # here
"""
)
"""Rank 0 wraps a layer more, and DDP raises on all ranks."""

KEY_BEHIND = """
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group("gloo")
store = _get_default_store()
if dist.get_rank():
    store.get("ready")  # there
dist.all_reduce(torch.ones(3))  # here
store.set("ready", "yes")
"""
"""Rank 0 sets the key that the others wait for behind a call that needs them."""

KEY_ASKED = """
import time
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group("gloo")
store = _get_default_store()
store.add("come", 1)
if dist.get_rank():
    dist.barrier()  # there
while store.add("come", 0) <= dist.get_world_size():  # here
    time.sleep(0.02)
dist.barrier()
"""
"""Rank 0 asks the store for one rank more than there are, and the others wait for it in a call."""

KEY_ASKED_LONG = """
import time
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group("gloo")
store = dist.PrefixStore("mine", _get_default_store())
if dist.get_rank():
    while not store.check(["ready"]):
        time.sleep(0.02)
    while int(store.get("ready")) < 2:
        time.sleep(0.02)
else:
    time.sleep(10)
    store.set("ready", "1")
    time.sleep(2)
    store.set("ready", "2")
dist.barrier()
"""
"""A rank asks the store for long, and rank 0 sets what it asks for in the end."""

KEY_NEVER = """
import datetime
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group("gloo")
store = dist.PrefixStore("mine", _get_default_store())
if dist.get_rank():
    store.wait(["this", "that"], datetime.timedelta(minutes=10))  # here
"""
"""Rank 0 ends, and sets nothing of what the others wait for."""

KEY_BY_THREAD = """
import threading, time
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

dist.init_process_group("gloo")
store = _get_default_store()

def later():
    time.sleep(4)
    store.set("ready", "yes")

if dist.get_rank():
    store.multi_get(["ready"])
else:
    threading.Thread(target=later).start()
dist.all_reduce(torch.ones(3))
"""
"""A thread of rank 0 sets the key, while its main thread waits for the others."""

KEY_OF_ITS_OWN = """
import datetime, os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
folder = os.environ["FOLDER"]
if dist.get_rank():
    store = dist.FileStore(folder + "/store", -1)
    store.wait(["ready"], datetime.timedelta(seconds=12))  # here
dist.all_reduce(torch.ones(3))
"""
"""Who may set a key of a store of its own is not known."""
