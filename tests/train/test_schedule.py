"""Learning rates against the formulas of llm.c's schedulers, worked out by hand."""

import pytest

from steptime.train.schedule import learning_rate


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("cosine", 0, 0.1),
        ("cosine", 9, 1.0),
        ("cosine", 10, 1.0),
        ("cosine", 55, 0.55),
        ("linear", 55, 0.55),
        ("linear", 100, 0.1),
        ("constant", 0, 1.0),
        ("constant", 99, 1.0),
        ("wsd", 4, 0.5),
        ("wsd", 79, 1.0),
        ("wsd", 85, 0.1 + 0.5 * 0.9),
        ("wsd", 100, 0.1),
    ],
)
def test_schedules(schedule, step, rate):
    found = learning_rate(schedule, step, steps=100, peak=1.0, warmup=10, final=0.1)
    assert found == pytest.approx(rate)


def test_a_run_that_is_all_warm_up_climbs_to_the_end():
    rates = [learning_rate("cosine", s, 5, 1.0, warmup=20, final=0.1) for s in range(5)]
    assert rates == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.25])
