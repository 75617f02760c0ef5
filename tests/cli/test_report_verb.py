"""The verb ``report``: pages made again, of several runs, and of damaged ones."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import here


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "simulated"
    words = "gpt2-124M --cluster pcie-switch-8 --ranks 2 --strategy server,replicated"
    done = here("simulate", *words.split(), "--out", str(out), folder=out.parent)
    assert done.code == 0, done.err
    return out


@pytest.fixture
def run(simulated: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(simulated, tmp_path / "one"))


def shown(page: Path) -> str:
    """What a page shows without a script: a trace is written in nanoseconds, and packed so."""
    text = page.read_text()
    return text[text.index("<main>") : text.index("</main>")]


def test_the_page_is_made_again_as_it_was(run: Path) -> None:
    before = shown(run / "report.html")
    (run / "report.html").unlink()
    done = here("report", str(run), "--json", folder=run.parent)
    assert done.code == 0
    page = str(run / "report.html")
    assert done.json == {"verb": "report", "page": page, "runs": [str(run)], "incomplete": []}
    assert shown(run / "report.html") == before


def test_several_runs_make_one_page(run: Path, simulated: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "both.html"
    done = here("report", str(run), str(simulated), "--out", str(page), folder=run.parent)
    assert (done.code, done.out) == (0, f"report: {page}\n")
    text = page.read_text()
    assert "one: replicated" in text
    assert "simulated: replicated" in text
    assert '<section id="runs">' in text


@pytest.mark.parametrize("damage", ["gone", "truncated"])
def test_a_damaged_timeline_leaves_a_page_that_says_so(run: Path, damage: str) -> None:
    trace = run / "trace.json.gz"
    content = trace.read_bytes()
    trace.unlink()
    if damage == "truncated":
        trace.write_bytes(content[: len(content) // 2])
    done = here("report", str(run), folder=run.parent)
    assert done.code == 0
    assert done.out.startswith("incomplete: one: cannot read the trace")
    text = (run / "report.html").read_text()
    assert "This page is incomplete." in text
    assert "The timeline of this run cannot be read." in text
    assert "<table>" in text


def test_what_is_no_run_with_steps_is_refused_in_a_sentence(run: Path, tmp_path: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    del record["strategies"]["server"]["step_time_s"]
    (run / "run.json").write_text(json.dumps(record))
    assert (
        "is not whole (Object missing required field `step_time_s`"
        in here("report", str(run), folder=run.parent).err
    )
    (run / "run.json").write_text('{"verb": "topo", "model": "x"}')
    assert "is a run of topo, which took no step" in here("report", str(run), folder=run.parent).err
    (run / "run.json").write_text('{"verb": "bench", "model": "x"}')
    assert "run.json: it lacks 'rows'; run" in here("report", str(run), folder=run.parent).err
    (run / "run.json").write_text('{"verb": "bench"')
    assert here("report", str(run), folder=run.parent).code == 2
    assert here("report", str(tmp_path / "none"), folder=run.parent).code == 2


def test_several_runs_need_a_place_and_names(run: Path, simulated: Path, tmp_path: Path) -> None:
    assert "--out FILE" in here("report", str(run), str(simulated), folder=run.parent).err
    twice = here("report", str(run), str(run), "--out", str(tmp_path / "x.html"), folder=run.parent)
    assert "is given twice" in twice.err
