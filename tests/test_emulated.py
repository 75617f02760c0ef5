"""What processes on an emulated cluster read of it."""

import json
from pathlib import Path

from steptime import emulated
from steptime.emulated import Emulated, LinkFault
from steptime.report.about import played_by
from steptime.runs.environment import Environment
from steptime.runs.environment import here as environment_here


def test_a_process_elsewhere_is_on_none(tmp_path: Path) -> None:
    assert emulated.here({}) is None
    assert emulated.here({emulated.VARIABLE: str(tmp_path / "gone")}) is None
    assert emulated.holders({}) == {}
    assert environment_here().emulated is None


def test_what_the_cluster_keeps_is_read(tmp_path: Path) -> None:
    fault = {"what": "host1 cut off", "host": "host1", "at_s": 1.5, "until_s": None}
    told = {"cluster": "two", "holders": {"host0": 2, "host1": 3}, "time_dilation": 5.0}
    file = tmp_path / "told"
    file.write_text(json.dumps({**told, "faults": [fault]}))
    environ = {emulated.VARIABLE: str(file)}
    assert emulated.holders(environ) == {"host0": 2, "host1": 3}
    assert emulated.here(environ) == Emulated(
        cluster="two", hosts=2, time_dilation=5.0, faults=[LinkFault(**fault)]
    )
    assert Environment(time="now", emulated=emulated.here(environ)).emulated is not None


def test_a_run_says_that_its_hosts_were_played() -> None:
    here = Emulated(cluster="two", hosts=2, time_dilation=5.0)
    assert played_by(Environment(time="now")) == ""
    assert played_by(Environment(time="now", emulated=here)) == (
        ", on 2 emulated hosts of two, clocks 5 times slower"
    )
