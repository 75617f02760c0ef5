import time

import pytest

from steptime.replay.backends import stand_in
from steptime.replay.standin import Kind


@pytest.mark.parametrize(("kind", "least"), [("sleep", 0.02), ("busy", 0.005), ("nothing", 0)])
def test_standing_in_takes_time_and_sees_to_communication(kind: Kind, least: float) -> None:
    polled = []
    work = stand_in(kind)
    start = time.perf_counter()
    work(0.02, lambda: not polled.append(None))
    took = time.perf_counter() - start
    assert took >= least
    assert bool(polled) == (kind != "nothing")  # how often depends on who else wants the core


def test_what_is_busy_takes_the_core_and_what_sleeps_leaves_it() -> None:
    spent = {}
    for kind in ("busy", "sleep"):
        work = stand_in(kind)  # type: ignore[arg-type]
        start = time.process_time()
        work(0.3, lambda: True)
        spent[kind] = time.process_time() - start
    assert spent["busy"] > 3 * spent["sleep"]
