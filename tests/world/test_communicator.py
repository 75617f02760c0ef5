import pytest
import torch
import torch.distributed as dist

from ranks import on_ranks
from steptime.collectives.call_bytes import member_bytes
from steptime.world.communicator import Communicator
from steptime.world.wire import wire_traffic

COUNT = 3 << 18


def move(kind):
    comm = Communicator()
    vector = torch.full((COUNT,), float(dist.get_rank() + 1))
    dist.barrier()
    before = wire_traffic()
    call = getattr(comm, kind)
    (call(vector, 1) if kind in ("reduce", "broadcast") else call(vector)).wait()
    dist.barrier()
    after = wire_traffic()
    shard = comm.shard(vector)
    return comm.traffic, after and after.minus(before), float(vector[0]), float(shard[-1])


@pytest.mark.parametrize(
    ("kind", "first", "own_last"),
    [
        ("all_reduce", [6, 6, 6], [6, 6, 6]),
        ("reduce", [None, 6, None], [None, 6, None]),
        ("broadcast", [2, 2, 2], [2, 2, 2]),
        ("reduce_scatter", [6, None, None], [6, 6, 6]),
        ("all_gather", [1, 1, 1], [1, 2, 3]),
    ],
)
def test_collectives_compute_and_the_kernel_saw_their_bytes(tmp_path, kind, first, own_last):
    results = on_ranks(3, move, tmp_path, kind)
    for rank, (traffic, wire, value, last) in enumerate(results):
        assert first[rank] in (None, value)
        assert own_last[rank] in (None, last)
        assert traffic == member_bytes(kind, 4 * COUNT, rank, 3, 1)
        assert wire is None or wire.sent + wire.received > 0
    if all(wire for _, wire, _, _ in results):
        needed = sum(traffic.sent for traffic, *_ in results)
        sent = sum(wire.sent for _, wire, _, _ in results)
        assert 0.95 * needed <= sent <= 2.5 * needed
