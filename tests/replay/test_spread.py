import pytest

from steptime.replay.spread import hosts_of, spread, spread_lines
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Transformer

SMALL = Transformer(
    name="small", layers=8, hidden=64, heads=8, context=32, vocabulary=500, experts=4
)


def test_axes_are_spread_over_hosts_by_their_strides():
    program = hybrid(SMALL, tensor=4, expert=4, data=2, pipeline=2, micro_batches=4)
    rows = {row.axis: row for row in spread(program, hosts_of(64))}
    assert list(rows) == ["tensor", "expert", "data", "pipeline", "expert+data"]
    places = {axis: (row.size, row.stride, row.in_host, row.hosts) for axis, row in rows.items()}
    assert places == {
        "tensor": (4, 1, 4, 1),
        "expert": (4, 4, 2, 2),
        "data": (2, 16, 1, 2),
        "pipeline": (2, 32, 1, 2),
        "expert+data": (8, 4, 2, 4),
    }
    tokens, counts = 32 * 64 * 2, 4 * 4 * 8
    # 4 layers, 4 micro-batches
    assert rows["expert"].sent_bytes == 4 * 4 * (4 * tokens + counts) * 3 // 4
    assert rows["pipeline"].sent_bytes > 4 * tokens


@pytest.mark.parametrize(("each", "hosts"), [(1, 4), (3, 2), (16, 1)])
def test_a_group_may_lie_across_hosts(each, hosts):
    program = hybrid(SMALL, tensor=4, data=2, micro_batches=1)
    tensor = spread(program, hosts_of(8, each))[0]
    assert (tensor.in_host, tensor.hosts) == (min(each, 4), hosts)


def test_the_table_has_a_line_an_axis_and_fits_a_terminal():
    program = hybrid(SMALL, tensor=4, expert=4, data=2, pipeline=2, micro_batches=4)
    lines = list(spread_lines(spread(program, hosts_of(64)), "8 a host"))
    assert len(lines) == 1 + 5
    assert max(map(len, lines)) <= 80
    assert list(spread_lines([])) == []
