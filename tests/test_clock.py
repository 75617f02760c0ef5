"""The clock that steps are timed by, where time is dilated and where it is not."""

import os
import subprocess
import sys
import time

import pytest

from steptime import clock


def told(code: str, dilation: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", f"import time\nfrom steptime import clock\n{code}"],
        env=os.environ | {clock.VARIABLE: dilation},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for word in done.stdout.split()]


def test_where_no_time_is_dilated_it_is_the_machines() -> None:
    assert clock.DILATION == 1
    assert clock.now is time.perf_counter


def test_it_goes_slower_by_the_dilation() -> None:
    code = (
        "a, b = clock.now(), time.perf_counter()\nclock.sleep(0.01)\n"
        "print(clock.now() - a, time.perf_counter() - b)"
    )
    seconds, wall = told(code, "20")
    assert 0.01 <= seconds < wall / 19
    assert wall >= 0.2


def test_computing_lasts_as_long_as_the_clock_has_it() -> None:
    code = (
        "a, own = clock.now(), time.thread_time()\nclock.COMPUTING.begin()\n"
        "while time.thread_time() - own < 0.02: pass\n"
        "clock.COMPUTING.lap()\nprint(clock.now() - a)"
    )
    (seconds,) = told(code, "10")
    assert 0.02 <= seconds < 0.2  # 0.02 by the clock, which are 0.2 s here


def test_what_is_passed_over_lasts_as_long_as_it_did() -> None:
    code = (
        "def burn(s):\n own = time.thread_time()\n while time.thread_time() - own < s: pass\n"
        "computing = clock.COMPUTING\na, before = time.perf_counter(), computing.core_s\n"
        "computing.begin()\nburn(0.05)\ncomputing.pass_over()\nburn(0.01)\ncomputing.lap()\n"
        "time.sleep(0.05)\ncomputing.begin()\n"
        "print(computing.core_s - before, time.perf_counter() - a)"
    )
    core_s, wall_s = told(code, "50")
    assert 0.06 <= core_s < 0.1  # and not what was slept
    assert wall_s >= 0.05 + 50 * 0.01 + 0.05
    assert told(code, "1")[0] == pytest.approx(core_s, abs=0.02)


def test_what_is_no_factor_dilates_nothing() -> None:
    assert told("print(clock.DILATION)", "fast") == [1.0]
