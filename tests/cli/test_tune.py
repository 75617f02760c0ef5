"""The verb tune as its users run it."""

import json

import pytest

from cli.command import MPIEXEC, here, run
from steptime.collectives.selection import Selection

pytestmark = pytest.mark.skipif(not MPIEXEC, reason="there is no mpiexec")


def test_it_writes_a_selection_that_can_be_read(tmp_path):
    words = "tune all_gather --backend mpi --ranks 3 -e 64K -f 64 --json --quiet"
    ended = run(*words.split(), folder=tmp_path)
    assert ended.code == 0, ended.err
    result = ended.json
    selection = Selection.parse(result["selection"], "all_gather", 3)
    assert result["variable"] == "STEPTIME_ALL_GATHER"
    names = {"builtin", "bruck", "circulant", "ring"}
    for contest in result["contests"]:
        assert set(contest["time_us"]) == names, "recursive_doubling cannot serve 3 ranks"
        assert contest["selected"] == selection.algorithm(contest["size_bytes"])
        assert contest["fastest"] == min(contest["time_us"], key=contest["time_us"].get)
    written = json.loads((tmp_path / result["run"] / "selection.json").read_text())
    assert written == {"STEPTIME_ALL_GATHER": result["selection"]}


def test_it_says_how_the_selection_is_used(tmp_path):
    words = "tune --backend mpi --ranks 2 -b 4 -e 4 --algorithms ring,builtin"
    ended = run(*words.split(), folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "export STEPTIME_ALL_REDUCE='" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("barrier", "barrier has no sizes"),
        ("--algorithms mine.py", "there is no file mine.py"),
        ("--algorithms ring,nope", "'nope' does not exist"),
    ],
)
def test_what_is_refused(words, says, tmp_path):
    ended = here("tune", *words.split(), folder=tmp_path)
    assert ended.code == 2
    assert says in ended.err
