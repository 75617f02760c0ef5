"""``steptime.what_ifs``: many changes of one step are what each is alone."""

import math

import pytest

import steptime as st
from steptime.errors import UsageError

STEP = {"ranks": 16, "tensor": 4, "pipeline": 2, "micro_batches": 4}
CHANGES = [
    "bandwidth=0.1x",
    "latency=50us,compute=2x",
    "reduction=2x",
    "forward=2x",
    "rank 3=0.25x,bandwidth=4x",
    "compute=inf,bandwidth=inf,latency=0",
]


@pytest.mark.slow
@pytest.mark.parametrize("fidelity", ["collective", "message"])
def test_each_row_is_the_answer_of_simulate_to_the_last_digit(fidelity) -> None:
    table = st.what_ifs("gpt2", "dgx-h100-pod", CHANGES, fidelity=fidelity, **STEP)
    assert [row["what_if"] for row in table.rows] == ["", *CHANGES]
    alone = [
        st.simulate("gpt2", "dgx-h100-pod", fidelity=fidelity, what_if=text, **STEP).record
        for text in CHANGES
    ]
    (base,) = alone[0].strategies.values()
    steps = [base.step_time_s.median]
    steps += [one.step_time_s.median for run in alone for one in run.what_if.strategies.values()]
    assert [row["step_s"] for row in table.rows] == steps
    speedups = [row["speedup"] for row in table.rows]
    assert speedups == [*(steps[0] / step for step in steps[:-1]), math.inf]  # all of it is free
    assert len(set(steps)) >= len(steps) - 1  # nothing adds up within the calls of a library


def test_each_strategy_has_a_row_for_each_change() -> None:
    strategies = ["sharded", "overlapped"]
    table = st.what_ifs(
        "gpt2", "dgx-h100", ["bandwidth=2x"], ranks=4, strategy=",".join(strategies)
    )
    named = [(row["what_if"], row["strategy"]) for row in table.rows]
    assert named == [(text, one) for text in ("", "bandwidth=2x") for one in strategies]


def test_changes_that_are_none_are_refused_before_anything_is_simulated() -> None:
    done: list[str] = []

    def track(over, what):
        for one in over:
            yield one
            done.append(what)

    with pytest.raises(UsageError, match="does not know 'speed=2x'"):
        st.what_ifs("gpt2", "dgx-h100", ["latency=0", "speed=2x"], ranks=4, track=track)
    with pytest.raises(UsageError, match=r"write \['latency=0'\]"):
        st.what_ifs("gpt2", "dgx-h100", "latency=0", ranks=4, track=track)
    assert done == []
    st.what_ifs("gpt2", "dgx-h100", ["latency=0"], ranks=4, strategy="sharded", track=track)
    assert done == ["changes"]
