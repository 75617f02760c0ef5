"""Numbers beyond what anybody runs are refused at every door, whatever their option."""

import pytest

from steptime.api.arguments import bytes_of, ranks_of
from steptime.api.charts import chart
from steptime.cli.options import RankOptions
from steptime.errors import UsageError
from steptime.limits import LIMITS, check_within, whole_number
from steptime.measure.sizes import Sweep
from steptime.replay.options import ProxyOptions
from steptime.study.options import HowOptions
from steptime.study.scale_options import parse_counts
from steptime.train.options import TrainOptions
from steptime.units import parse_bytes, parse_flops, parse_rate, parse_seconds
from steptime.workloads.mesh import Mesh
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

HUGE = 999_999_999_999_999_999_999


@pytest.mark.parametrize(
    "ask",
    [
        lambda: StepSpec(ranks=HUGE),
        lambda: StepSpec(micro_batches=HUGE),
        lambda: StepSpec(layers=HUGE),
        lambda: StepSpec(rows=HUGE),
        lambda: RankOptions(ranks=HUGE),
        lambda: RankOptions(threads=HUGE),
        lambda: ProxyOptions(ranks_per_host=HUGE),
        lambda: TrainOptions(batch=HUGE),
        lambda: HowOptions(steps=HUGE),
        lambda: Mesh(tensor=1 << 15, pipeline=1 << 15),
        lambda: ranks_of("1-999999999999"),
        lambda: bytes_of(2, HUGE),
        lambda: step_of(StepSpec(model="gpt2-124M", layers=6000, micro_batches=6000)),
        lambda: chart("all_reduce", ranks=65_536),
    ],
)
def test_more_than_anybody_has_is_refused(ask):
    with pytest.raises(UsageError, match="it must be at most"):
        ask()


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bytes, "1e308"),
        (parse_bytes, "1e999GiB"),
        (parse_rate, "1e999GB/s"),
        (parse_rate, "1e-30GB/s"),
        (parse_flops, "1e999TFLOP/s"),
        (parse_seconds, "1e999us"),
    ],
)
def test_no_unit_makes_a_number_endless(parse, text):
    with pytest.raises(UsageError, match=r"is too large|is no rate|is too long"):
        parse(text)


def test_a_sweep_has_an_end():
    with pytest.raises(UsageError, match="over 10,000 sizes"):
        Sweep(1, 1 << 40, step=1)
    with pytest.raises(UsageError, match="must be a number above 1"):
        Sweep(1, 1 << 40, factor=float("inf"))
    assert len(Sweep(4, 16 << 20, factor=4.0).sizes()) == 12


def test_every_limit_has_a_lower_and_an_upper_end():
    for least, most in LIMITS.values():
        check_within("--it", least, least, most)
        check_within("--it", most, least, most)
        with pytest.raises(UsageError, match=f"at least {least}"):
            check_within("--it", least - 1, least, most)


def test_a_number_of_more_digits_than_python_converts_is_too_large_and_no_mistake():
    assert whole_number("9" * 5000) == 10**30 - 1
    assert (whole_number("012"), whole_number("-1"), whole_number("")) == (12, None, None)
    with pytest.raises(UsageError, match="at most"):
        parse_counts("1," + "9" * 5000, "ranks")


def test_what_is_no_number_is_within_no_limits():
    with pytest.raises(UsageError, match="is nan: it must be at least 1"):
        check_within("--time-dilation", float("nan"), 1, 10)
