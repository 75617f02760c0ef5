"""simulate from end to end: its table, its run directory, its JSON, and what it refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import FILES, run, tiny

from forked import forked
from steptime.cli import build_app
from steptime.errors import UsageError
from steptime.program import Collective, Program
from steptime.program.chakra import write_chakra
from steptime.simulate import price
from steptime.timeline import read_chrome_trace
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import model_named

STRATEGIES = ["server", "replicated", "sharded", "sliced", "overlapped", "overlapped_sharded"]
SMALL = ["gpt2-124M", "--cluster", "dgx-h100", "--ranks", "4", "--batch", "4", "--tokens", "64"]


@pytest.fixture
def simulate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Calls the verb in this process, where the compiled code is loaded once; what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words: str) -> str:
        build_app()(["simulate", *words, "--out", "run"], exit_on_error=False, print_error=False)
        return capsys.readouterr().out

    return call


def test_a_person_gets_a_table_and_a_run_directory(tmp_path: Path) -> None:
    ended = run("simulate", *SMALL, folder=tmp_path, environ={"COLUMNS": "80"})
    assert (ended.code, ended.err) == (0, "")
    assert "Simulated on dgx-h100, One DGX H100" in ended.out
    for name in STRATEGIES:
        assert re.search(rf"^ *{name.replace('_sharded', '')} +\d", ended.out, re.MULTILINE), name
    assert "Every figure is simulated, at message fidelity: 4 ranks on dgx-h100" in ended.out
    for word in ("p10", "Loss", "measured on", "wire"):
        assert word not in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    (folder,) = (tmp_path / "runs").glob("simulate-*")
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_what_does_not_fit_comes_first(simulate: Callable[..., str], tmp_path: Path) -> None:
    words = ("llama3-70B", "--cluster", "dgx-h100", "--tensor", "8", "--layers", "40")
    lines = simulate(*words).strip().splitlines()
    before = " ".join(line.strip() for line in lines[: lines.index("") if "" in lines else 8])
    assert "measurements DOES NOT FIT: a rank keeps " in before
    assert "It would with --" in before
    heading = next(line for line in lines if line.startswith("strategy"))
    assert heading.split()[1:3] == ["84.9", "GB"]
    assert max(map(len, lines)) <= 80
    answer = json.loads(simulate(*words, "--json"))
    assert answer["fits"] is answer["strategies"]["replicated"]["fits"] is False
    assert answer["model_memory"]["would_fit"][0]["total"] <= 80998 << 20
    page = (tmp_path / "run" / "report.html").read_text()
    assert re.search(r'<h1 class="unfit">Does not fit: a rank keeps [\d.]+ GB', page)
    fitting = json.loads(simulate(*SMALL, "--strategy", "replicated", "--json"))
    assert fitting["fits"] is fitting["strategies"]["replicated"]["fits"] is True
    assert 'class="unfit"' not in (tmp_path / "run" / "report.html").read_text()


def test_json_has_every_field_of_the_contract(simulate: Callable[..., str]) -> None:
    answer = json.loads(simulate(*SMALL, "--strategy", "all", "--json"))
    fields = {"verb": str, "source": str, "fidelity": str, "cluster": str, "step_time_s": float}
    fields |= {"wall_s": float, "messages": int, "ranks": list, "links": list, "strategies": dict}
    assert {name: type(answer[name]) for name in fields} == fields
    assert (answer["verb"], answer["source"], answer["cluster"]) == (
        "simulate",
        "simulated",
        "dgx-h100",
    )
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1, 2, 3]
    assert set(answer["ranks"][0]) >= {"compute_s", "exposed_comm_s", "idle_s"}
    assert all(0 < link["utilisation"] <= 1 + 1e-9 for link in answer["links"])
    assert list(answer["strategies"]) == STRATEGIES
    for entry in answer["strategies"].values():
        assert entry["source"] == "simulated"
        phases = ("compute_s", "exposed_comm_s", "update_s", "other_s")
        median = entry["step_time_s"]["median"]
        assert sum(entry[phase] for phase in phases) == pytest.approx(median)
        assert entry["tokens_per_s"] == pytest.approx(4 * 64 / median)
    assert json.loads(Path("run/run.json").read_text()) == answer
    timeline = read_chrome_trace(Path("run/trace.json.gz"))
    assert (timeline.source, timeline.ranks) == ("simulated", 4)
    assert len(timeline.steps_named("sharded")) == 2 * 4


def test_what_if_and_sensitivity_stand_beside_it(simulate: Callable[..., str]) -> None:
    words = [*SMALL, "--strategy", "sharded", "--sensitivity", "--what-if", "compute=2x"]
    printed = simulate(*words)
    assert "What if compute=2x" in printed
    assert "What bounds the step (simulated)" in printed
    assert re.search(r"1 % more compute speed of all devices +saves 0\.\d\d.%", printed)
    written = json.loads(Path("run/run.json").read_text())
    before, after = (s["strategies"]["sharded"] for s in (written, written["what_if"]))
    assert after["compute_s"] == pytest.approx(before["compute_s"] / 2)


def test_an_ideal_network_leaves_waiting_alone(simulate: Callable[..., str]) -> None:
    answer = json.loads(simulate(*SMALL, "--strategy", "replicated", "--ideal", "--json"))
    entry = answer["what_if"]["strategies"]["replicated"]
    assert entry["exposed_comm_s"] == pytest.approx(0, abs=1e-12)
    of_step = answer["strategies"]["replicated"]
    assert of_step["ideal_step_s"] == pytest.approx(entry["step_time_s"]["median"])


def test_a_pipeline_names_its_bubble(simulate: Callable[..., str]) -> None:
    words = ["llama3-8B", "--cluster", "dgx-h100", "--pipeline", "8", "--micro-batches", "4"]
    printed = simulate(*words)
    assert "\nThe pipeline bubble bounds replicated: " in printed
    written = json.loads(Path("run/run.json").read_text())
    for entry in [written["strategies"]["replicated"], *written["ranks"]]:
        parts = [entry[f"{part}_s"] for part in ("transfer", "bubble", "imbalance", "dependency")]
        assert sum(parts) == pytest.approx(entry["exposed_comm_s"])
    # (p − 1)/m of what a stage computes: the first has the embedding besides, and all send.
    first = written["ranks"][0]
    assert first["bubble_s"] == pytest.approx(7 / 4 * first["compute_s"], rel=0.01)


def test_a_program_of_chakra_traces_takes_as_long_as_the_model_it_was_made_of(
    simulate: Callable[..., str], tmp_path: Path
) -> None:
    program = data_parallel(
        model_named("gpt2-124M"), "replicated", ranks=4, batch=4, context=64, dtype="bf16"
    )
    write_chakra(program, tmp_path / "traces")
    words = ["--cluster", "dgx-h100", "--json"]
    of_program = json.loads(simulate(str(tmp_path / "traces"), *words))
    of_model = json.loads(simulate(*SMALL, "--strategy", "replicated", "--json"))
    assert of_program["step_time_s"] == pytest.approx(of_model["step_time_s"], rel=1e-9)
    (entry,) = of_program["strategies"].values()
    assert entry["tokens_per_s"] is None
    assert "tokens" not in simulate(str(tmp_path / "traces"), *words[:2])


def test_a_preset_has_its_published_figures_beside(simulate: Callable[..., str]) -> None:
    printed = simulate("--preset", "marenostrum5-nine")
    assert re.search(r"^reduce +500 ms +\d+ ms", printed, re.MULTILINE)
    assert "8 or 9 ranks on marenostrum5-nine" in " ".join(printed.split())
    rows = json.loads(Path("run/run.json").read_text())["published"]["rows"]
    assert [row["label"] for row in rows][-1] == "iteration"


@pytest.fixture
def flows(tmp_path: Path) -> str:
    path = tmp_path / "flows.csv"
    path.write_text("src,dst,bytes,start_s\n1,0,1GB,0\n2,0,1GB,0\n0,3,1GB,1e-3\n")
    return str(path)


def test_flows_finish_when_their_links_let_them(simulate: Callable[..., str], flows: str) -> None:
    words = ("--flows", flows, "--cluster", "office-10gbe")
    answer = json.loads(simulate(*words, "--ideal", "--json"))
    first, second, alone = (flow["finish_s"] for flow in answer["flows"])
    assert first == second == pytest.approx(2 * (alone - 1e-3), rel=1e-2)
    ideal = [flow["finish_s"] for flow in answer["what_if"]["flows"]]
    assert ideal == pytest.approx([0, 0, 1e-3])
    assert sorted(path.name for path in Path("run").iterdir()) == ["run.json", "trace.json.gz"]
    printed = simulate(*words)
    assert "The last to finish is from" in printed
    assert "(simulated)" in printed


@pytest.mark.slow
def test_compare_puts_the_simulated_step_beside_the_measured(text: Path, tmp_path: Path) -> None:
    words = tiny(text, ranks=2, strategies="replicated,shared", cluster="office-10gbe", json=True)
    answer = forked("compare", *words, "--out", "run", folder=tmp_path).json
    simulated = answer["simulated"]
    assert (simulated["source"], simulated["cluster"]) == ("simulated", "office-10gbe")
    (name, there), here = *simulated["strategies"].items(), answer["strategies"]["replicated"]
    assert (name, there["source"], here["source"]) == ("replicated", "simulated", "measured")
    assert there["compute_s"] == pytest.approx(here["compute_s"])
    assert there["bytes_sent_per_rank"] == here["bytes_sent_per_rank"]
    assert "Measured here and simulated on" in (tmp_path / "run" / "report.html").read_text()


def test_compare_refuses_a_cluster_that_is_too_small_before_any_rank_starts(
    text: Path, tmp_path: Path
) -> None:
    words = tiny(text, ranks=5, batch=5, cluster="laptop", json=True)
    ended = forked("compare", *words, folder=tmp_path)
    assert (ended.code, ended.json["error"][:31]) == (2, "5 ranks do not fit on laptop, w")
    assert not list(tmp_path.iterdir())


def test_compare_refuses_a_cluster_that_can_run_no_strategy_asked_for(
    text: Path, tmp_path: Path
) -> None:
    words = tiny(text, ranks=2, strategies="shared", cluster="office-10gbe", json=True)
    ended = forked("compare", *words, folder=tmp_path)
    assert (ended.code, "have no memory in common" in ended.json["error"]) == (2, True)


PAGE = Path(__file__).parents[2] / "docs" / "simulate.md"


@pytest.mark.slow
def test_the_page_shows_what_its_commands_print(simulate: Callable[..., str]) -> None:
    blocks = re.findall(r"^```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE.read_text(), re.MULTILINE)
    shown = dict(blocks)
    Path("flows.csv").write_text(shown.pop("cat flows.csv"))
    for command, text in shown.items():
        if "16384" not in command:
            _, _, *words, _, out = command.split()
            printed = simulate(*words).replace("run/report.html", f"{out}/report.html")
            assert _without_times(printed.replace("run: run", f"run: {out}")) == (
                _without_times(text)
            ), command


def _without_times(text: str) -> list[str]:
    """The words of a text, but for how long this computer took."""
    return re.sub(r"in \S+ \S+ on this computer", "", " ".join(text.split())).split()


def deadlock() -> Program:
    """Two ranks that each wait in a collective that the other has not come to."""
    one = Collective(name="a", kind="all_reduce", group=("x",), nbytes=8)
    other = Collective(name="b", kind="all_reduce", group=("x", "y"), nbytes=8)
    lists = ((one, other), (other, one))
    class_of = np.array([0, 1, 0, 0], np.int32)
    return Program(name="deadlock", axes={"x": 2, "y": 2}, lists=lists, class_of=class_of)


MODEL = ["gpt2-124M", "--cluster", "laptop"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing says what to simulate"),
        (["gpt2-124M"], "nothing says on which cluster"),
        (["gpt5", "--cluster", "laptop"], "there is no model 'gpt5'"),
        (["gpt2-124M", "--cluster", "nonesuch"], "no cluster is called 'nonesuch'"),
        (["gpt2-124M", "--preset", "marenostrum5-nine"], "both say what to simulate"),
        (["--preset", "nonesuch"], "there is no preset 'nonesuch'"),
        (["--preset", "marenostrum5-nine", "--batch", "9"], "--batch is about a model"),
        (["--preset", "marenostrum5-nine", "--cluster", "laptop"], "has its own cluster"),
        ([*MODEL, "--ranks", "5"], "5 ranks do not fit on laptop"),
        ([*MODEL, "--what-if", "bandwidth=nan"], "bandwidth=nan is no bandwidth"),
        ([*MODEL, "--what-if", "latency=0", "--ideal"], "both say what to change"),
        ([*MODEL, "--algorithm", "all_reduce=nonesuch"], "there is no all_reduce 'nonesuch'"),
        ([*MODEL, "--algorithm", "nonesuch=ring"], "there is no collective 'nonesuch'"),
        ([*MODEL, "--steps", "1"], "--steps is 1: it must be at least 2"),
        ([str(PAGE), "--cluster", "laptop"], "simulate.md is one file: name a folder of Chakra"),
        (["./nothing", "--cluster", "laptop"], "nothing has no Chakra traces"),
        (["./nothing", "--cluster", "laptop", "--ranks", "2"], "--ranks is about a model"),
        (["--flows", "nothing.csv", "--cluster", "laptop"], "cannot read the flows nothing.csv"),
        (["--flows", "nothing.csv"], "nothing says on which cluster"),
        (["--flows", "nothing.csv", "--cluster", "laptop", "--sensitivity"], "flows have none"),
        (["--flows", "nothing.csv", "--cluster", "laptop", "--steps", "3"], "--steps is about a"),
        ([*MODEL, "--algorithm", "all_to_all=direct"], "one of all_to_all, and no step calls it"),
        (["deadlock", "--cluster", "laptop"], "deadlock never ends: rank 0 in 'a', which waits"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_before_any_work(
    simulate: Callable[..., str], words: list[str], sentence: str
) -> None:
    if "deadlock" in words:
        write_chakra(deadlock(), Path("deadlock"))
    with pytest.raises(UsageError) as refused:
        simulate(*words)
    assert sentence in str(refused.value)
    assert not Path("run").exists()


def test_too_many_transfers_are_refused_before_any_work(
    simulate: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(price, "MOST_TRANSFERS", 10)
    with pytest.raises(UsageError, match="makes more than 10 transfers, too many to simulate"):
        simulate(*MODEL, "--algorithm", "all_reduce=circulant")
    assert not Path("run").exists()


def test_a_refusal_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    ended = run("simulate", "gpt2-124M", "--json", folder=tmp_path)
    assert ended.code == 2
    error: dict[str, Any] = ended.json
    assert ended.err == f"steptime: {error['error']}\n"
    assert not list(tmp_path.iterdir())
