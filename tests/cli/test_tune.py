"""The verb tune as its users run it."""

import json

import pytest

from cli.command import here
from cli.test_bench import BROKEN
from forked import forked
from steptime.collectives.selection import Selection
from steptime.measure.sizes import parse_size


def test_it_writes_a_selection_that_can_be_read(tmp_path):
    words = "tune all_gather --ranks 3 -e 64K -f 64 --json --quiet"
    ended = forked(*words.split(), folder=tmp_path)
    assert ended.code == 0, ended.err
    result = ended.json
    selection = Selection.parse(result["selection"], "all_gather", 3)
    assert result["variable"] == "STEPTIME_ALL_GATHER"
    names = {"builtin", "bruck", "circulant", "ring"}
    level = {}
    for contest in result["contests"]:
        assert set(contest["time_us"]) == names, "recursive_doubling cannot serve 3 ranks"
        assert contest["selected"] == selection.algorithm(contest["size_bytes"])
        equals = [contest["fastest"], *contest["level_with"]]
        assert contest["winner"] == (None if contest["level_with"] else contest["fastest"])
        assert contest["selected"] in equals
        assert set(contest["ratios"]) == names
        assert contest["ratios"][contest["fastest"]] == {"against_best": 1, "ci99": [1, 1]}
        level |= {contest["size_bytes"]: equals} if contest["level_with"] else {}
    written = json.loads((tmp_path / result["run"] / "selection.json").read_text())
    assert written["STEPTIME_ALL_GATHER"] == result["selection"]
    assert {parse_size(size): names for size, names in written["level"].items()} == level


def test_it_says_how_the_selection_is_used(tmp_path):
    words = "tune --ranks 2 -b 4 -e 4 --algorithms ring,builtin"
    ended = forked(*words.split(), folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "export STEPTIME_ALL_REDUCE='" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


def test_a_wrong_algorithm_is_named_and_nothing_is_selected(tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    words = "tune --ranks 3 -b 4K -e 4K --algorithms builtin,mine.py --out here"
    ended = forked(*words.split(), folder=tmp_path)
    assert ended.code == 1
    assert "elements of the results of mine.py are wrong at 4KiB, so nothing" in ended.err
    assert not (tmp_path / "here" / "selection.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("barrier", "barrier has no sizes"),
        ("--algorithms mine.py", "there is no file mine.py"),
        ("--algorithms ring,nope", "'nope' does not exist"),
        ("--ranks 2 --turns 30", "--turns is 30 and --iters is 20: give fewer turns"),
        ("--ranks 2 --see 0%", "--see is 0%"),
    ],
)
def test_what_is_refused(words, says, tmp_path):
    ended = here("tune", *words.split(), folder=tmp_path)
    assert ended.code == 2
    assert says in ended.err
