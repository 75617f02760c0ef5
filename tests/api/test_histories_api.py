"""``steptime.history``: the verb's own answer, as rows."""

from pathlib import Path

import pytest

import steptime as st
from cli.command import here
from steptime.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same, and one of a larger batch."""
    path = tmp_path_factory.mktemp("history")
    for name, batch in (("one", 8), ("two", 8), ("larger", 16)):
        run = st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated", batch=batch)
        run.save(path / "runs" / name)
    return path


def test_it_is_the_answer_of_the_verb(folder: Path) -> None:
    verb = here("history", "runs", "--figure", "compute_s", "--json", folder=folder).json
    found = st.history(folder / "runs", "compute_s")
    told = dict(found.record)
    verb.pop("environment"), told.pop("environment")
    assert (verb.pop("folder"), told.pop("folder")) == ("runs", str(folder / "runs"))
    assert verb == told


def test_each_run_of_each_series_is_a_row(folder: Path) -> None:
    found = st.history(folder / "runs")
    assert sorted(len(one.points) for one in found.series) == [1, 2]
    rows = {row["run"]: row for row in found.rows}
    assert set(rows) == {"one", "two", "larger"}
    assert rows["one"]["step_time_s"] == rows["two"]["step_time_s"]
    assert rows["larger"]["step_time_s"] == st.load(folder / "runs" / "larger").step_s
    assert (rows["larger"]["batch"], rows["one"]["batch"]) == ("16", "8")
    table = found.to_pandas()
    assert table.groupby("batch")["run"].count().to_dict() == {"8": 2, "16": 1}


def test_it_shows_itself_and_makes_a_page(folder: Path, tmp_path: Path) -> None:
    found = st.history(folder / "runs", "tokens_per_s")
    assert "simulate gpt2-nano, replicated, 2 ranks" in repr(found)
    assert "larger" in found._repr_html_()
    page = found.report(tmp_path / "page.html").read_text()
    assert "larger" in page
    assert "tokens" in page


def test_what_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        st.history(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no runs"):
        st.history(tmp_path)
    with pytest.raises(UsageError, match="choose one of step_time_s"):
        st.history(folder / "runs", "loss")
