"""What of a call is work of the cores, by hand from rounds, and rounds of live ranks."""

import numpy as np
import pytest

import steptime as st
from steptime.study.call_work import work_and_rest


def test_work_is_what_other_threads_need_and_rest_what_is_left_of_a_round() -> None:
    """Four ranks on two cores, of which two call alone: wall, computed, posted, all threads."""
    small = [[4.0, 1.0, 0.125, 1.875], [2.5, 1.0, 0.125, 1.5]]
    large = [[8.0, 1.0, 0.5, 3.625], [4.0, 1.0, 0.5, 3.0]]
    work, rest, posting_s = work_and_rest(np.array([small, large]), 1.0)
    assert posting_s == 0.125
    assert work.tolist() == [0.75, 2.125]
    assert rest.tolist() == [2.5 - 1.5, 4.0 - 3.0]
    _, crowded, _ = work_and_rest(np.array([small, large]), 2.0)
    assert crowded.tolist() == [0.0, 0.0]  # the cores were never without work


def test_a_call_that_keeps_a_core_busy_is_all_work_and_one_that_sleeps_all_rest() -> None:
    def job() -> list[tuple[float, float]]:
        import threading
        import time

        from steptime.measure.place import make_transport
        from steptime.replay.standin import busy
        from steptime.study.call_work import measure_rounds, work_and_rest

        def burn() -> None:
            began = time.thread_time()
            while time.thread_time() - began < 5e-3:
                pass

        def works() -> float:
            thread = threading.Thread(target=burn)
            thread.start()
            thread.join()
            return 0.0

        def works_itself() -> float:
            burn()
            return 1e-3  # of its 5 ms it takes one to post the call

        def sleeps() -> float:
            time.sleep(5e-3)
            return 0.0

        world, found = make_transport("gloo"), []
        for call in (works, works_itself, sleeps):
            rounds = measure_rounds(world, call, call if world.rank == 0 else None, busy())
            work, rest, _ = work_and_rest(rounds[None], 1.0)
            found.append((float(work[0]), float(rest[0])))
        return found

    both = st.run(job, ranks=2, backend="gloo", threads=1)
    assert both[0] == both[1]
    (working_s, _), (itself_s, _), (idle_work_s, sleeping_s) = both[0]
    assert working_s == pytest.approx(5e-3, rel=0.2)
    assert itself_s == pytest.approx(4e-3, rel=0.2)
    assert idle_work_s < 1e-3
    assert sleeping_s > 4e-3
