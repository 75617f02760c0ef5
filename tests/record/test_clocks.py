"""The clocks of two hosts on one, by what their ranks called together."""

import time
from dataclasses import replace

import numpy as np
import pytest

import recorded_scripts as scripts
from recorded import record
from steptime.record.clocks import host_clocks
from steptime.record.events import both_clocks
from steptime.record.read import ProcessLog, read_logs
from steptime.record.timeline import recorded_timeline

AHEAD_S = 5.0


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[ProcessLog]:
    """Those of two ranks that trained and had calls in common."""
    folder = tmp_path_factory.mktemp("clocks")
    assert record(folder, scripts.STEPPING).code == 0
    return read_logs(folder / "run")


def test_both_clocks_are_of_one_moment_where_a_process_loses_its_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def apart() -> int:
        clock, wall = both_clocks()
        return wall - clock

    true, read = apart(), time.time_ns
    lost = iter([0.02, 0.0, 0.02, 0.0, 0.02])

    def late() -> int:
        wall = read()
        time.sleep(next(lost))
        return wall

    monkeypatch.setattr(time, "time_ns", late)
    assert abs(apart() - true) < 5_000_000


def test_a_clock_that_is_ahead_is_put_right(logs: list[ProcessLog]) -> None:
    here, there = logs
    assert host_clocks([here, there]) == ()
    ahead = replace(there, host="another", wall_ns=there.wall_ns + round(1e9 * AHEAD_S))
    first, second = host_clocks([here, ahead])
    assert (first.offset_s, first.error_s) == (0.0, 0.0)
    assert second.ranks == (1,)
    # The two logs have in truth one clock, so what is found is wrong by what it differs from 5 s.
    assert abs(second.offset_s - AHEAD_S) <= second.error_s < AHEAD_S
    true, found = (recorded_timeline([here, one], "step") for one in (there, ahead))
    of_rank = true.intervals["rank"] == 1
    gap = np.abs(true.intervals["start"] - found.intervals["start"])[of_rank]
    assert gap.max() <= second.error_s + 1e-6
    assert found.clocks == (first, second)


def test_hosts_that_called_nothing_together_keep_their_wall_clocks(logs: list[ProcessLog]) -> None:
    here, there = logs
    messages = replace(there, host="another", events=there.events[:0])
    assert [clock.host for clock in host_clocks([here, messages])] == [here.host]
