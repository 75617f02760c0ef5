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
    work(0.02, lambda: not polled.append(None))
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
            work(0.004, lambda: True)
        left[kind] = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    assert left["sleep"] > 20 > left["busy"]
