"""``steptime.simulate``: the verb's own answer, and what it gives a notebook."""

import json
from pathlib import Path
from typing import get_type_hints

import pytest

import steptime as st
from cli.command import here
from steptime.api.results import Run
from steptime.errors import UsageError
from steptime.runs.record import to_json
from steptime.workloads.spec import StepOptions, StepSpec

HYBRID = {"ranks": 32, "tensor": 8, "pipeline": 2, "strategy": "overlapped"}


@pytest.fixture(scope="module")
def hybrid() -> Run:
    return st.simulate("gpt3-13B", "dgx-h100-pod", fidelity="collective", **HYBRID)


def test_the_options_of_a_step_are_those_of_its_specification() -> None:
    options, fields = get_type_hints(StepOptions), get_type_hints(StepSpec)
    assert set(options) == set(fields) - {"model"}
    assert {n: t for n, t in options.items() if n != "bucket"} == {
        n: t for n, t in fields.items() if n not in ("model", "bucket")
    }


def test_it_is_the_answer_of_the_verb_to_the_last_digit(hybrid, tmp_path: Path) -> None:
    words = [word for name, value in HYBRID.items() for word in (f"--{name}", str(value))]
    line = ["gpt3-13B", "--cluster", "dgx-h100-pod", "--fidelity", "collective", *words, "--json"]
    verb = here("simulate", *line, folder=tmp_path).json
    told = json.loads(json.dumps(to_json(hybrid.record)))
    for changing in ("environment", "run", "wall_s"):
        verb.pop(changing), told.pop(changing)
    for entry in (*verb["strategies"].values(), *told["strategies"].values()):
        entry.pop("wall_s")
    assert told == verb
    assert hybrid.step_s == verb["step_time_s"]


def test_models_and_clusters_may_be_names_objects_or_files(hybrid, tmp_path: Path) -> None:
    model, cluster = st.model("gpt3-13B"), st.cluster("dgx-h100-pod")
    assert st.simulate(model, cluster, fidelity="collective", **HYBRID).step_s == hybrid.step_s
    file = tmp_path / "own.toml"
    file.write_text(
        'family = "gpt2"\nlayers = 2\nhidden = 64\nheads = 2\nvocabulary = 256\ncontext = 32\n'
    )
    assert st.simulate(file, cluster, ranks=2, strategy="sharded").record.work.spec["layers"] == 2


def test_a_run_shows_itself_and_comes_back_from_its_folder(hybrid, tmp_path: Path) -> None:
    assert "Simulated on dgx-h100-pod" in repr(hybrid)
    assert "overlapped" in hybrid._repr_html_()
    assert list(hybrid.to_pandas()["strategy"]) == ["overlapped"]
    row = hybrid.row
    parts = row["compute_s"] + row["exposed_comm_s"] + row["update_s"] + row["other_s"]
    assert parts == pytest.approx(row["step_s"])
    assert "<html" in hybrid.report(tmp_path / "page.html").read_text()
    folder = hybrid.save(tmp_path / "run")
    again = st.load(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "program.json.gz",
        "report.html",
        "run.json",
        "trace.json.gz",
    ]
    assert (again.step_s, again.row) == (hybrid.step_s, hybrid.row)
    assert again.timeline is not None
    assert len(again.timeline.intervals) == len(hybrid.timeline.intervals)
    (folder / "trace.json.gz").unlink()
    broken = st.load(folder)
    assert broken.timeline is None
    with pytest.raises(UsageError, match="has no timeline"):
        broken.report(tmp_path / "page.html")


def test_what_if_and_sensitivity_are_part_of_the_record() -> None:
    seen = []

    def track(over, what):
        seen.append((what, len(over)))
        return over

    run = st.simulate(
        "gpt2-124M",
        "dgx-h100-pod",
        ranks=4,
        strategy="sharded",
        bucket="1MiB",
        what_if="bandwidth=2x",
        sensitivity=True,
        track=track,
    )
    assert run.record.what_if.strategies["sharded"].step_time_s.median < run.step_s
    assert run.figures.sensitivity
    assert seen[:2] == [("steps", 1), ("what if", 1)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "gpt3-14B"}, "did you mean gpt3"),
        ({"cluster": "dgx-h100-pods"}, "did you mean"),
        ({"ranks": 100_000}, "do not fit"),
        ({"bucket": "25"}, "says no unit"),
    ],
)
def test_what_does_not_fit_is_refused(options, said: str) -> None:
    asked = {"model": "gpt2-124M", "cluster": "dgx-h100-pod", "ranks": 8, **options}
    with pytest.raises(UsageError, match=said):
        st.simulate(**asked)


def test_a_sweep_of_simulations_is_a_table() -> None:
    swept = st.sweep(
        st.simulate,
        model="gpt2-124M",
        cluster="dgx-h100-pod",
        strategy="sharded",
        ranks=[2, 3],
        tensor=[1, 2],
    )
    assert [row["refused"] != "" for row in swept.rows] == [False, False, False, True]
    assert swept.rows[0]["step_s"] == swept.cells[0].result.step_s
