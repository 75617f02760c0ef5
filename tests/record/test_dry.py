"""A rank of a large job, recorded alone, does what it would do among the others."""

import json
from pathlib import Path

import pytest

import recorded_scripts as scripts
import steptime as st
from recorded import calls_of, record
from steptime.record.read import read_logs


def test_ranks_of_a_large_job_are_recorded_alone(tmp_path: Path) -> None:
    done = record(
        tmp_path, scripts.STEPPING, words=["--dry", "--ranks", "1024", "--show", "0,1023"]
    )
    assert done.code == 0, done.err
    assert "communication took no time" in done.out
    first, last = read_logs(tmp_path / "run")
    assert (first.rank, last.rank, first.world_size) == (0, 1023, 1024)
    assert ("all_reduce", 40) in calls_of(first)
    assert ("all_reduce", 40) not in calls_of(last)
    assert (
        len(next(group for group in first.groups.values() if len(group.ranks) < 1024).ranks) == 512
    )
    assert json.loads((tmp_path / "run" / "run.json").read_text())["ranks"] == 1024


@pytest.mark.slow
def test_a_dry_rank_makes_the_calls_of_a_real_one(tmp_path: Path) -> None:
    found = []
    for name, words in (("dry", ["--dry", "--ranks", "2", "--show", "0,1"]), ("live", None)):
        folder = tmp_path / name
        folder.mkdir()
        done = record(folder, scripts.STEPPING, words=words)
        assert done.code == 0, done.err
        found.append([calls_of(log) for log in read_logs(folder / "run")])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dry"], "--dry needs the size of the job"),
        (["--dry", "--ranks", "4", "--show", "4"], "--show is '4': give ranks from 0 to 3"),
        (["--ranks", "2", "--show", "0"], "give --dry, or leave it out"),
        (["--profile", "5:3"], "--profile is '5:3'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: list[str], says: str) -> None:
    done = record(tmp_path, scripts.ALONE, words=words)
    assert done.code == 2
    assert says in done.err


def test_chosen_steps_have_their_operators(tmp_path: Path) -> None:
    done = record(tmp_path, scripts.STEPPING, words=["--ranks", "2", "--profile", "1:3"])
    assert done.code == 0, done.err
    timeline = st.load(tmp_path / "run").timeline
    operators = timeline.intervals[
        timeline.intervals["stream"] == timeline.streams.index("operators")
    ]
    assert set(operators["step"].tolist()) == {1, 2}
    assert set(operators["rank"].tolist()) == {0, 1}
    names = {timeline.names[name] for name in operators["name"]}
    assert "aten::sum" in names
    backward = timeline.intervals["name"] == timeline.names.index("backward")
    spans = timeline.intervals[backward & (timeline.intervals["rank"] == 0)]
    products = operators[
        [timeline.names[name].endswith("MmBackward0") for name in operators["name"]]
        & (operators["rank"] == 0)
    ]
    assert len(products) == 2
    # One clock: what backward runs lies in backward, but for what a busy machine put between the
    # readings of the two clocks.
    off_s = 0.01
    for product in products:
        begins, ends = product["start"] + off_s, product["end"] - off_s
        assert ((spans["start"] <= begins) & (ends <= spans["end"])).any()
