"""scale from end to end: ranks that it starts, cells that it simulates, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Ended, here, options, tiny
from rich.console import Console

from forked import forked
from steptime.report.scale_table import print_scale
from steptime.runs.run_folder import read_record
from steptime.runs.scale import scale_record
from steptime.timeline import Phase, read_chrome_trace

CONTRACT = {
    "ranks": int,
    "threads": int,
    "strategy": str,
    "source": str,
    **dict.fromkeys(
        (
            "step_time_s",
            "speedup",
            "efficiency",
            "parallel_efficiency",
            "load_balance",
            "communication_efficiency",
            "serialisation_efficiency",
            "transfer_efficiency",
            "computation_scalability",
            "global_efficiency",
        ),
        float,
    ),
}
FACTORS = (
    "load_balance",
    "serialisation_efficiency",
    "transfer_efficiency",
    "computation_scalability",
)
STEPS = 6
SIMULATED = ("scale", "gpt2-124M", "--cluster", "dgx-h100-pod", "--ranks", "8,64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


@pytest.fixture(scope="module")
def live(text: Path, folder: Path) -> Ended:
    words = tiny(text, ranks="1,2", threads="1", steps=STEPS, warmup=1, json=True, out="live")
    return forked("scale", *words, folder=folder)


@pytest.fixture(scope="module")
def answer(live: Ended) -> dict[str, Any]:
    assert (live.code, live.err) == (0, "")
    return live.json


@pytest.fixture(scope="module")
def simulated(folder: Path) -> dict[str, Any]:
    ended = here(*SIMULATED, "--json", "--out", "there", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    return ended.json


def cells(answer: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(c["ranks"], c["threads"], c["strategy"]) for c in answer["cells"]]


@pytest.mark.parametrize("which", ["answer", "simulated"])
def test_fields_of_the_contract(which: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    assert found["verb"] == "scale"
    for cell in found["cells"]:
        assert {field: type(cell[field]) for field in CONTRACT} == CONTRACT
        assert cell["source"] == ("measured" if which == "answer" else "simulated")


@pytest.mark.parametrize("which", ["answer", "simulated"])
def test_the_factors_multiply(which: str, request: pytest.FixtureRequest) -> None:
    for cell in request.getfixturevalue(which)["cells"]:
        product = 1.0
        for factor in FACTORS:
            product *= cell[factor]
        assert product == pytest.approx(cell["global_efficiency"], rel=1e-6)
        parallel = cell["load_balance"] * cell["communication_efficiency"]
        assert parallel == pytest.approx(cell["parallel_efficiency"], rel=1e-6)


def test_live_cells_stand_in_one_table(answer: dict[str, Any]) -> None:
    assert cells(answer) == [(1, 1, "replicated"), (2, 1, "replicated"), (2, 1, "overlapped")]
    assert [c["execution"] for c in answer["cells"]] == ["sequential", "blocking", "overlapped"]
    assert answer["baseline"]["name"] == "1x1"
    first = answer["cells"][0]
    assert (first["speedup"], first["efficiency"]) == (1.0, 1.0)
    for cell in answer["cells"]:
        assert cell["iterations"] == STEPS
        spread = cell["step_time_spread_s"]
        assert 0 < spread["p10"] <= spread["median"] <= spread["p90"]
        assert spread["mean"] == cell["step_time_s"]
        assert cell["speedup"] == pytest.approx(first["step_time_s"] / cell["step_time_s"])
        assert cell["tokens_per_s"] == pytest.approx(4 * 32 / cell["step_time_s"])
        assert 0 < cell["useful_s"]["longest"] <= cell["ideal_step_time_s"] * (1 + 1e-9)


def test_points_take_turns_and_a_speedup_has_an_interval(
    answer: dict[str, Any], folder: Path
) -> None:
    assert answer["in_turns"] is True
    runs = []
    for name in ("1x1", "2x1"):
        steps = read_chrome_trace(folder / "live" / "cells" / name / "trace.json.gz").intervals
        steps = steps[(steps["phase"] == Phase.STEP) & (steps["rank"] == 0) & (steps["step"] > 0)]
        runs += [(float(start), name) for start in steps["start"]]
    order = [name for _, name in sorted(runs)]
    # Two strategies at 2x1 and one at 1x1, a step of each a turn; whichever is first in a turn.
    turns = [sorted(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert turns == [["1x1", "2x1", "2x1"]] * STEPS
    for cell in answer["cells"]:
        low, high = cell["speedup_ci95"]
        assert low <= cell["speedup"] <= high
    assert answer["cells"][0]["speedup_ci95"] == [1, 1]


def test_what_ranks_left_is_a_run_of_its_own(answer: dict[str, Any], folder: Path) -> None:
    assert sorted(path.name for path in (folder / "live").iterdir()) == [
        "cells",
        "report.html",
        "run.json",
    ]
    assert json.loads((folder / "live" / "run.json").read_text()) == answer
    for cell in answer["cells"]:
        own = folder / "live" / cell["folder"]
        record = read_record(own)
        assert (record["ranks"], record["threads"]) == (cell["ranks"], cell["threads"])
        trace = read_chrome_trace(own / "trace.json.gz")
        assert len(trace.steps_named(cell["strategy"])) == (STEPS + 1) * cell["ranks"]


def test_simulated_cells_scale_weakly_by_default(simulated: dict[str, Any], folder: Path) -> None:
    assert cells(simulated) == [
        (ranks, 1, strategy) for ranks in (8, 64) for strategy in ("replicated", "overlapped")
    ]
    assert simulated["scaling"] == "weak"
    assert simulated["cluster"] == "dgx-h100-pod"
    first, *_, last = simulated["cells"]
    assert last["speedup"] == pytest.approx(8 * first["step_time_s"] / last["step_time_s"])
    assert first["efficiency"] > last["tokens_per_s_scaling"] * 0.9
    for cell in simulated["cells"]:
        assert cell["load_balance"] == pytest.approx(1.0, abs=1e-3)
        assert cell["transfer_efficiency"] < 1.0
        assert (folder / "there" / cell["folder"] / "trace.json.gz").exists()


def test_a_model_that_a_device_cannot_hold_is_told(folder: Path) -> None:
    words = ("--cluster", "dgx-h100", "--ranks", "8", "--strategies", "replicated")
    ended = here("scale", "llama3-8B", *words, "--out", "large", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    run = read_record(folder / "large")
    (cell,) = run["cells"]
    assert cell["model_memory"]["total"] > cell["model_memory"]["device_bytes"] == 80998 << 20
    told = " ".join(ended.out.split())
    first = "DOES NOT FIT: 8×1 replicated; speedups are told against a baseline that cannot run."
    assert f"computing by kernels, fitted to published measurements {first}" in told
    assert "a step and does not fit; the same batch" in told
    assert (cell["fits"], run["baseline"]["fits"]) == (False, False)


def test_strong_scaling_shares_one_batch(folder: Path) -> None:
    words = ("--strong", "--batch", "512", "--strategies", "overlapped", "--baseline", "64x1")
    ended = here(*SIMULATED, *words, "--json", "--out", "strong", folder=folder)
    less, more = ended.json["cells"]
    assert ended.json["baseline"]["ranks"] == 64
    # Eight times the rows, and the same update: less than eight times the time.
    assert 4 < less["useful_s"]["mean"] / more["useful_s"]["mean"] < 8
    assert less["speedup"] == pytest.approx(more["step_time_s"] / less["step_time_s"])
    assert less["speedup"] < 1.0 < less["efficiency"]


@pytest.mark.parametrize("which", ["answer", "simulated"])
@pytest.mark.parametrize("width", [80, 200])
def test_the_table_fits(which: str, width: int, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    console = Console(width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as captured:
        print_scale(console, scale_record(found))
    printed = captured.get()
    assert max(map(len, printed.splitlines())) <= width
    assert "\x1b" not in printed
    assert "…" not in printed
    beside = [line for line in printed.splitlines() if "mean ms" in line and "GE" in line]
    assert bool(beside) == (width == 200)
    flat = " ".join(printed.split())
    for cell in found["cells"]:
        assert f"{cell['bound']['sentence']}." in flat


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--ranks", "1,0"), "--ranks has '0': write numbers from 1 up"),
        (("--threads", "many"), "--threads has 'many'"),
        (("--baseline", "8x1"), "--baseline 8x1 is not in the grid"),
        (("--baseline", "base"), "--baseline is 'base': write RANKSxTHREADS"),
        (("--weak", "--strong"), "both say what stays the same"),
        (("--strategies", "telepathy"), "there is no strategy 'telepathy'"),
        (("--ranks", "1,3"), "--batch 32 does not divide among 3 ranks"),
        (("--steps", "0"), "--steps is 0: it must be at least 1"),
        (("--cluster", "dgx-h100", "--ranks", "8,16"), "16 ranks do not fit on dgx-h100"),
        (("--cluster", "dgx-h100", "--threads", "2"), "the devices of a cluster have no threads"),
        (("--cluster", "dgx-h100", "--seed", "3"), "--seed is about a training here"),
        (("--cluster", "dgx-h100", "--strategies", "shared"), "share none: choose another"),
        (("--cluster", "nowhere"), "no cluster is called 'nowhere'"),
        (("--tensor", "2"), "--tensor is not for a training here"),
        (("--cluster", "dgx-h100", "--ranks", "8", "--tensor", "3"), "are 6 ranks, not 8"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    ended = here("scale", *words, folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_trained_here_is_named(tmp_path: Path) -> None:
    ended = here("scale", "deepseek-v3", folder=tmp_path)
    assert ended.code == 2
    assert "'deepseek-v3' cannot be trained here, where models are of GPT-2" in ended.err
    ended = here("scale", "llama3-70B", folder=tmp_path)
    assert ended.code == 2
    assert "of memory are free here: choose a smaller model" in ended.err


def test_a_launcher_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    ended = here("scale", *options(json=True), folder=tmp_path)
    assert ended.code == 2
    assert "run it without a launcher" in ended.err
