"""``steptime.export``: the files of the verb, of a folder and of what is in memory."""

from pathlib import Path

import pytest

import steptime as st
from cli.command import here
from steptime.api.results import Run
from steptime.errors import UsageError
from steptime.timeline import read_chrome_trace


@pytest.fixture(scope="module")
def run() -> Run:
    return st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated,server", batch=8)


@pytest.fixture(scope="module")
def folder(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.save(tmp_path_factory.mktemp("exported") / "run")


def test_it_is_the_answer_of_the_verb(folder: Path) -> None:
    verb = here("export", str(folder), "--to", "chakra", "--json", folder=folder).json
    found = st.export(folder, "chakra")
    assert dict(found.record) == verb
    assert [str(path) for path in found.files] == [file["path"] for file in verb["files"]]
    told = here("export", str(folder), "--to", "chakra", folder=folder, columns=116).out
    assert repr(found) == told.rstrip("\n")


def test_a_run_in_memory_gives_the_files_of_its_folder(run, folder: Path, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    kept = st.export(folder, "csv", tmp_path / "kept")
    held = st.export(run, "csv", tmp_path / "held", tell=lambda *done: heard.append(done))
    assert [path.read_bytes() for path in held.files] == [path.read_bytes() for path in kept.files]
    assert heard
    assert all(done <= whole for done, whole in heard)
    assert (kept.record["run"], held.record["run"]) == (str(folder), None)
    trace = st.export(run, "perfetto", tmp_path / "one.json")
    assert run.timeline is not None
    assert len(read_chrome_trace(trace.files[0]).intervals) == len(run.timeline.intervals)


def test_the_program_of_one_strategy_by_an_algorithm(run: Run, tmp_path: Path) -> None:
    asked = {"strategy": "replicated", "algorithm": "all_reduce=binomial"}
    found = st.export(run, "goal", tmp_path / "step.goal", **asked)
    (program,) = found.record["programs"]
    assert program["algorithms"] == {"all_reduce": "binomial"}
    assert found.files == (tmp_path / "step.goal",)
    assert "LogGOPSim" in found.opened_by
    assert "binomial" in found._repr_html_()


def test_what_cannot_be_exported_is_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say where with out"):
        st.export(run, "csv")
    with pytest.raises(UsageError, match="no format 'perfeto': did you mean perfetto"):
        st.export(folder, "perfeto")
    with pytest.raises(UsageError, match="--per-rank is about perfetto"):
        st.export(folder, "csv", per_rank=True)
    with pytest.raises(UsageError, match="has no program 'ring'"):
        st.export(run, "chakra", tmp_path / "et", strategy="ring")
    with pytest.raises(UsageError, match="is no folder"):
        st.export(tmp_path / "nowhere", "csv")
    assert not list(tmp_path.iterdir())
