import pytest

from steptime.errors import UsageError
from steptime.measure.bench import size_of
from steptime.measure.operation import OPERATIONS
from steptime.measure.options import BenchOptions
from steptime.measure.sizes import Sweep, parse_size
from steptime.measure.table import flat


def test_sizes_are_those_of_nccl_tests_and_ours():
    assert parse_size("8K") == parse_size("8k") == parse_size("8KiB") == 8192
    assert parse_size("1G") == 1 << 30
    assert parse_size("8kB") == 8000
    assert Sweep(4, 64, factor=2).sizes() == [4, 8, 16, 32, 64]
    assert Sweep(4, 10, step=3).sizes() == [4, 7, 10]
    assert Sweep(1, 4, factor=1.1).sizes() == [1, 2, 3, 4]
    assert Sweep(4, 64, factor=1e308).sizes() == [4]


@pytest.mark.parametrize(
    ("op", "algbw_elements", "bus"),
    [
        ("all_reduce", 6, 1.5),
        ("all_gather", 24, 0.75),
        ("reduce_scatter", 24, 0.75),
        ("all_to_all", 24, 0.75),
        ("gather", 24, 0.75),
        ("scatter", 24, 0.75),
        ("broadcast", 6, 1),
        ("reduce", 6, 1),
        ("sendrecv", 6, 1),
    ],
)
def test_sizes_and_bus_factors_are_those_of_nccl_tests(op, algbw_elements, bus):
    operation = OPERATIONS[op]
    assert operation.elements(6, 4) == algbw_elements
    assert operation.count(4 * algbw_elements, 4, 4) == 6
    assert operation.bus(4) == bus


def test_sizes_that_come_to_the_same_count_are_measured_once():
    bench = BenchOptions(minbytes="1", maxbytes="64", stepfactor=2).bench(
        "all_gather", "builtin", 4
    )
    assert [size_of(data) for data in bench.data(4)] == [16, 32, 64]


def test_all_means_the_librarys_own_and_each_that_can_serve():
    def names(ranks):
        found = BenchOptions().bench("all_gather", "all", ranks).algorithms
        return [a.name if a else "builtin" for a in found]

    assert names(4)[0] == names(3)[0] == "builtin"
    assert "recursive_doubling" in names(4)
    assert "recursive_doubling" not in names(3)
    assert "ring" in names(3)


def test_two_algorithms_of_one_name_are_refused(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from steptime.collectives import algorithm, send\n"
        "@algorithm('all_reduce')\n"
        "def ring(ranks):\n"
        "    yield send(0, 0, 0)\n"
    )
    with pytest.raises(UsageError, match="two algorithms are called 'ring'"):
        BenchOptions().bench("all_reduce", f"ring,{mine}", 3)


def test_a_row_of_csv_has_both_halves_even_where_there_is_no_second():
    half = {"time_us": 1.0, "algbw_GBps": 2.0, "busbw_GBps": 3.0, "wrong": 0}
    columns = flat({"op": "x", "out_of_place": half, "in_place": None})
    assert columns["out_of_place_busbw_GBps"] == 3.0
    assert columns["in_place_time_us"] is None
