"""``steptime.diff``: the verb's own answer, of runs in memory and of folders."""

import json
from pathlib import Path

import numpy as np
import pytest

import steptime as st
from cli.command import here
from runs_made import environment, training
from steptime.api.differences import diff_against
from steptime.api.results import Run
from steptime.errors import UsageError
from steptime.runs.run_folder import read_record

NOISE = np.random.default_rng(0).uniform(0.99, 1.01, (4, 40))


def simulated(strategy: str, batch: int = 4) -> Run:
    return st.simulate("gpt2-124M", "dgx-h100", ranks=4, batch=batch, strategy=strategy)


@pytest.fixture(scope="module")
def sides() -> tuple[Run, Run]:
    return simulated("replicated"), simulated("server")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a/1, a/2, b/1 and b/2, of which those of b take 30 % longer."""
    folder = tmp_path_factory.mktemp("measured")
    names = (("a/1", 0.1), ("a/2", 0.1), ("b/1", 0.13), ("b/2", 0.13))
    for (name, step_s), noise in zip(names, NOISE, strict=True):
        training(folder / name, (step_s * noise).tolist(), environment=environment())
    return folder


def test_runs_in_memory_and_their_folders_are_one_answer(sides, tmp_path: Path) -> None:
    a, b = (run.save(tmp_path / name) for run, name in zip(sides, "ab", strict=True))
    verb = here("diff", "a", "b", "--fail-over", "1%", "--json", folder=tmp_path)
    found = st.diff(*sides).held_against("1%")
    told = json.loads(json.dumps(found.record))
    assert verb.code == found.slower_by_more(0.01) == 1
    for side in "ab":
        (of_verb,), (of_run,) = verb.json[side], told[side]
        assert (of_verb.pop("run"), of_run.pop("run")) == (side, "simulate of gpt2-124M")
        verb_time, run_time = of_verb.pop("time"), of_run.pop("time")
        assert verb_time[:10] == run_time[:10]
    again = st.diff(str(a), b)
    assert (again.ratio, again.rows) == (found.ratio, found.rows)
    assert found.ratio == pytest.approx(sides[1].step_s / sides[0].step_s)
    assert found.interval == pytest.approx((found.ratio, found.ratio))
    assert told["phases"] == here("diff", "a", "b", "--json", folder=tmp_path).json["phases"]


def test_phases_are_rows_that_add_up_and_show_themselves(sides) -> None:
    found = st.diff(*sides)
    step, *rows = found.rows
    apart = sum(row["difference_s"] for row in rows if row["of"] == "step")
    assert step["difference_s"] == pytest.approx(sides[1].step_s - sides[0].step_s)
    assert apart == pytest.approx(step["difference_s"])
    parts = [row for row in rows if row["of"] == "exposed_comm"]
    (exposed,) = (row for row in rows if row["phase"] == "exposed_comm")
    assert sum(row["b_s"] for row in parts) == pytest.approx(exposed["b_s"])
    assert list(found.to_pandas()["phase"][:3]) == ["step", "compute", "exposed_comm"]
    assert "% slower than A" in repr(found)
    assert "exposed comm" in found._repr_html_()
    assert not st.diff(sides[0], sides[0]).different


def test_several_of_each_may_be_a_folder_a_list_or_a_text(measured: Path) -> None:
    folders = {side: [measured / side / number for number in "12"] for side in "ab"}
    texts = [",".join(map(str, folders[side])) for side in "ab"]
    runs = [st.load(folder) for folder in folders["a"]]
    found = [
        st.diff(measured / "a", measured / "b"),
        st.diff(*texts),
        st.diff(runs, folders["b"]),
    ]
    assert len({one.ratio for one in found}) == 1
    assert found[0].different
    assert found[0].interval[0] < 1.3 < found[0].interval[1]
    assert "2 and 2 runs" in found[0].record["method"]


def test_what_varies_from_run_to_run_widens_the_interval_of_one_of_each(measured: Path) -> None:
    a, b = measured / "a" / "1", measured / "b" / "1"
    narrow, wide = st.diff(a, b, run_to_run=0.001), st.diff(a, b, run_to_run="20%")
    assert narrow.different
    assert not wide.different
    assert not wide.slower_by_more("5%")
    assert wide.interval[0] < narrow.interval[0] < narrow.ratio < narrow.interval[1]


def test_it_leaves_a_folder_and_a_page(sides, tmp_path: Path) -> None:
    found = st.diff(*sides).held_against(0.01)
    left = read_record(found.save(tmp_path / "kept"))
    assert (left["run"], left["failed"]) == (str(tmp_path / "kept"), True)
    assert left["ratio"] == found.ratio
    assert "<html" in (tmp_path / "kept" / "report.html").read_text()
    page = found.report(tmp_path / "page.html").read_text()
    assert "slower by more" in page
    assert "slower by more" not in st.diff(*sides).report(tmp_path / "page.html").read_text()


def test_what_cannot_be_compared_is_refused(sides, measured: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a batch of 4 and a batch of 8"):
        st.diff(sides[0], simulated("replicated", batch=8))
    with pytest.raises(UsageError, match="has several strategies: choose one of"):
        st.diff(sides[0], simulated("replicated,server"))
    assert not st.diff(sides[0], simulated("replicated,server"), strategy="replicated").different
    with pytest.raises(UsageError, match="--run-to-run is about one run of each"):
        st.diff(measured / "a", measured / "b", run_to_run=0.02)
    with pytest.raises(UsageError, match="--fail-over is -1: write a part"):
        st.diff(*sides).slower_by_more(-1)
    with pytest.raises(UsageError, match="is no folder"):
        st.diff(tmp_path / "nowhere", sides[0])


def test_revisions_that_cannot_take_turns_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    for options, said in (
        ({"pairs": 1}, "takes 2 or more"),
        ({"see": "5%", "pairs": 7}, "--see takes 8"),
        ({"see": "0%"}, "no number of runs would show"),
        ({"within": "5min"}, "--within is about --see"),
    ):
        with pytest.raises(UsageError, match=said):
            diff_against("HEAD", "train", **options, out=tmp_path / "out")
    with pytest.raises(UsageError, match="got 'bench'"):
        diff_against("HEAD", "bench", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
