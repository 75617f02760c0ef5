"""``steptime.tune`` on two ranks."""

import math
from pathlib import Path

import pytest

import steptime as st
from steptime.collectives.selection import Selection
from steptime.errors import UsageError

OWN = """
from steptime.collectives import algorithm, send

@algorithm("broadcast", chunks=lambda: 1)
def mine(ranks, root):
    for distance in range(1, ranks):
        yield send(root, (root + distance) % ranks, 0)
"""


@pytest.mark.slow
def test_the_selection_stands_on_its_contests() -> None:
    found = st.tune("all_gather", ranks=2, minbytes="64", maxbytes="64KiB", stepfactor=32, iters=6)
    assert [one.size_bytes for one in found.contests] == [64, 2 << 10, 64 << 10]
    for contest in found.contests:
        assert contest.seconds.shape == (6, len(contest.names))
        assert {"builtin", "ring"} < set(contest.names)
        unbeaten = [contest.names[at] for at in (contest.best, *contest.level)]
        assert found.selection.algorithm(contest.size_bytes) in unbeaten
        rows = [row for row in found.rows if row["size_bytes"] == contest.size_bytes]
        assert {row["algorithm"] for row in rows if row["level"]} == set(unbeaten)
        assert sum(row["selected"] for row in rows) == 1
    assert found.environment == {"STEPTIME_ALL_GATHER": str(found.selection)}
    assert Selection.parse(found.environment[found.variable], "all_gather", 2) == found.selection
    assert len(found.to_pandas()) == len(found.rows) == 3 * len(found.contests[0].names)


@pytest.mark.slow
def test_it_shows_a_line_for_each_size_and_how_the_backend_is_told() -> None:
    found = st.tune(
        ranks=2, algorithms="ring,builtin", minbytes="4", maxbytes="4KiB", turns=1, iters=2
    )
    assert found.rows[0]["against_best"] is None, "one turn tells nothing"
    assert set(found.level) == {"4B", "16B", "64B", "256B", "1KiB", "4KiB"}
    assert math.isclose(found.rows[0]["time_us"], found.contests[0].seconds[0, 0] * 1e6)
    text = repr(found)
    assert text.startswith(f"# all_reduce on 2 ranks ({found.library}), measured in turns")
    assert text.endswith(f"export STEPTIME_ALL_REDUCE='{found.selection}'")
    assert "At 6 of 6 sizes several are level" in text
    assert "selection.json" not in text, "nothing was written"
    assert "level with 1 other" in found._repr_html_()
    assert found.record["contests"][0]["level_with"]


@pytest.mark.slow
def test_an_algorithm_of_a_file_is_selected_by_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    found = st.tune(
        "broadcast", ranks=2, algorithms=str(file), minbytes="1KiB", maxbytes="1KiB", iters=2
    )
    assert str(found.selection) == f"{file}:0-max"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"op": "barrier"}, "barrier has no sizes"),
        ({"algorithms": "ring,nope"}, "'nope' does not exist"),
        ({"ranks": 2, "turns": 30}, "--turns is 30"),
        ({"backend": "none"}, "choose gloo"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_ranks_start(asked, says) -> None:
    with pytest.raises(UsageError, match=says):
        st.tune(**asked)
