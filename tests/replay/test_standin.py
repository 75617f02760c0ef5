import resource
import time

import pytest

from steptime.replay.backends import stand_in
from steptime.replay.run_options import Kind


@pytest.mark.parametrize(("kind", "least"), [("sleep", 0.02), ("busy", 0.005), ("nothing", 0)])
def test_standing_in_takes_time_and_sees_to_communication(kind: Kind, least: float) -> None:
    polled = []
    work = stand_in(kind)
    start = time.perf_counter()
    work(0.02, lambda: not polled.append(None), lambda seconds: time.sleep(seconds / 4))
    took = time.perf_counter() - start
    assert took >= least
    assert bool(polled) == (kind != "nothing")  # how often depends on who else wants the core


def test_what_is_busy_keeps_the_core_and_what_sleeps_leaves_it() -> None:
    """By how often the thread gave the core away: what others take of it does not count there."""
    left = {}
    for kind in ("busy", "sleep"):
        work = stand_in(kind)  # type: ignore[arg-type]
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for _ in range(50):
            work(0.004, lambda: True, lambda seconds: time.sleep(seconds / 4))
        left[kind] = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert left["sleep"] > 20 > left["busy"]


def test_who_sleeps_sees_to_communication_whenever_a_call_is_done() -> None:
    """A rest that ends early is a call that is done, and the next one must not wait for the end."""
    done = iter(range(4))
    seen: list[str] = []

    def rest(seconds: float) -> None:
        seen.append("rest")
        assert 0 < seconds <= 0.05

    def poll() -> bool:
        seen.append("poll")
        return next(done, None) is not None

    start = time.perf_counter()
    stand_in("sleep")(0.05, poll, rest)
    assert time.perf_counter() - start >= 0.05
    assert seen == ["poll", "rest"] * 4 + ["poll"]
