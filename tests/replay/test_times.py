from pathlib import Path

import pytest

from proxies import proxied
from steptime.errors import UsageError
from steptime.program import Compute, Program
from steptime.replay.options import ProxyOptions
from steptime.replay.times import read_times, timed_by_table, timed_in_all
from steptime.timeline import Phase
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import model_named


def gpt2() -> Program:
    return data_parallel(model_named("gpt2-124M"), "replicated", ranks=2, batch=4)


def seconds(program: Program) -> dict[str, float | None]:
    return {op.name: op.seconds for op in program.lists[0] if isinstance(op, Compute)}


def table(folder: Path, *lines: str) -> Path:
    path = folder / "times.csv"
    path.write_text("\n".join(("name,seconds", *lines)) + "\n")
    return path


def test_a_name_is_an_op_or_how_it_begins_and_the_longest_counts(tmp_path: Path) -> None:
    path = table(
        tmp_path, "forward *, 2ms", "forward block 1,0.003", "forward block 11,4ms",
        "backward *,5e-3", "norm,0", "update,1us",
    )  # fmt: skip
    found = seconds(timed_by_table(gpt2(), read_times(path), "t"))
    assert found["forward embedding"] == found["forward block 10"] == 2e-3
    assert found["forward block 1"] == 3e-3
    assert found["forward block 11"] == 4e-3
    assert found["backward block 3"] == 5e-3
    assert found["update"] == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("forward *,1ms",), "has no time for 'backward head', 'backward block 11'"),
        (("*,1ms", "froward,1ms"), "has times for 'froward'"),
        (("*,1ms", "*,2ms"), "line 3 of .* must have a name of its own"),
        (("*,-1",), "line 2 of .* says -1: a time is at least 0"),
        (("*,nan",), "a time is at least 0"),
        (("*,soon",), "'soon' is not a time"),
        (("*",), "line 2 of .* must have a name of its own and its seconds"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    lines: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        timed_by_table(gpt2(), read_times(table(tmp_path, *lines)), "the table")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the times"):
        read_times(tmp_path / "none.csv")
    (tmp_path / "other.csv").write_text("op,ms\n")
    with pytest.raises(UsageError, match="must begin with the line name,seconds"):
        read_times(tmp_path / "other.csv")


def test_a_time_in_all_is_that_of_the_rank_with_most_flop() -> None:
    plan = proxied("gpt2-124M", 2, pipeline=2, micro_batches=2, compute_time="100ms")
    in_all = [
        sum(op.seconds or 0.0 for op in ops if isinstance(op, Compute))
        for ops in plan.program.lists
    ]
    assert max(in_all) == pytest.approx(0.1)
    assert 0 < min(in_all) < 0.1  # the stage without the head has less to do
    of = [op for ops in plan.program.lists for op in ops if isinstance(op, Compute)]
    assert all(op.seconds == 0 for op in of if op.phase == Phase.UPDATE)
    rates = {round(op.flops / op.seconds) for op in of if op.seconds}
    assert len(rates) == 1
    assert "100 ms a step, given" in plan.times


def test_times_of_its_own_are_not_shared_out() -> None:
    original = Program(
        name="o", axes={"data": 1}, lists=((Compute(name="c", seconds=1.0),),), class_of=ONE
    )
    with pytest.raises(UsageError, match="leave --compute-time out"):
        timed_in_all(original, 0.1)


ONE = gpt2().class_of[:1] * 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"compute_time": "1s", "device_flops": "1TFLOP/s"}, "choose one"),
        ({"compute_time": "1s", "times": Path("t.csv")}, "--times and --compute-time both say"),
        ({"compute_time": "0s"}, "it must be above 0"),
        ({"compute_time": "1"}, "is not a time"),
        ({"compute_time": "1s", "compute": "nothing"}, "leaves it out: choose one"),
    ],
)
def test_times_that_contradict_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ProxyOptions(**given)  # type: ignore[arg-type]
