"""``steptime plan``: what it prints, its JSON, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Ended, here

PLAN = ("plan", "llama3-8B", "--cluster", "dgx-h100", "--batch", "64", "--tokens-per-row", "4096")


def plan(*words: str, folder: Path, columns: int = 80) -> Ended:
    return here(*PLAN, *words, "--out", "out", folder=folder, columns=columns)


def test_the_object_has_what_others_rely_on(tmp_path: Path) -> None:
    found = plan("--json", folder=tmp_path).json
    assert (found["verb"], found["model"], found["cluster"]) == ("plan", "llama3-8B", "dgx-h100")
    assert (found["source"], found["fits"], found["software"]) == ("computed", True, "megatron")
    assert found["searched"] > 1000
    assert found["wall_s"] > 0
    assert len(found["best"]) == 10
    for one in (*found["best"], *found["front"]):
        assert one["axes"].keys() == {"data", "tensor", "pipeline", "expert", "context"}
        assert one["source"] == "computed"
        assert {"schedule", "micro_batch", "recompute", "zero"} <= one.keys()
        assert {
            "step_time_s",
            "mfu",
            "memory_bytes",
            "fits",
            "bound",
            "expected_error",
        } <= one.keys()
        assert isinstance(one["memory_bytes"], int)
    on_disk = json.loads((tmp_path / "out" / "run.json").read_text())
    assert on_disk == found
    assert (tmp_path / "out" / "report.html").exists()


def test_the_command_that_it_prints_simulates_the_best(tmp_path: Path) -> None:
    lines = plan(folder=tmp_path).out.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("steptime simulate "))
    words = " ".join(lines[begin : lines.index("", begin)]).split()[1:]
    found = here(*words, "--json", folder=tmp_path).json
    best = json.loads((tmp_path / "out" / "run.json").read_text())["best"][0]
    assert found["batch"] == 64
    assert found["spec"]["zero"] == best["zero"]
    assert found["spec"]["rows"] == best["micro_batch"]
    assert found["step_time_s"] > 0


def test_what_is_fixed_is_so_in_every_layout(tmp_path: Path) -> None:
    words = ("--tensor", "2", "--zero", "1", "--recompute", "full", "--no-sequence-parallel")
    best = plan(*words, "--json", folder=tmp_path).json["best"]
    for one in best:
        assert (one["axes"]["tensor"], one["zero"], one["recompute"]) == (2, 1, "full")
        assert not one["sequence_parallel"]


def test_one_layout_is_explained_whole(tmp_path: Path) -> None:
    ended = plan("--explain", "tensor=8,zero=1", folder=tmp_path)
    best = json.loads((tmp_path / "out" / "run.json").read_text())["best"][0]
    assert best["axes"]["tensor"] == 8
    assert all(f"\n{name} " in ended.out for name in best["terms"])
    assert all(f"\n{name} " in ended.out for name, nbytes in best["memory"].items() if nbytes)


def test_one_layout_has_its_training_and_its_cost(tmp_path: Path) -> None:
    words = ("--explain", "tensor=2", "--tokens", "1T", "--cost", "2.5/h")
    told = " ".join(plan(*words, folder=tmp_path).out.split())
    found = json.loads((tmp_path / "out" / "run.json").read_text())
    best, training = found["best"][0], found["training"]
    assert f"take {best['tokens_per_s']:,.0f} tokens/s." in told
    assert f"{training['days']:,.0f} days, a cost of {training['cost']:,.0f}, " in told
    assert f"At 2.5 a device and hour a step costs {best['cost']:.4g} and " in told


def test_a_model_by_its_sizes_is_planned_and_simulated_the_same(tmp_path: Path) -> None:
    sizes = ("--layers", "8", "--hidden", "1024", "--heads", "16", "--vocabulary", "32000")
    asked = ("--cluster", "dgx-h100", "--gpus", "4", "--batch", "8", "--tokens-per-row", "512")
    found = here("plan", "gpt", *sizes, *asked, "--json", folder=tmp_path).json
    assert found["parameters"] == pytest.approx(12 * 8 * 1024**2 + 32000 * 1024, rel=0.02)
    words = ("simulate", "gpt", "--cluster", "dgx-h100", *found["best"][0]["options"].split())
    simulated = here(*words, "--json", folder=tmp_path).json
    assert simulated["model_config"]["parameters"] == found["parameters"]
    assert (simulated["spec"]["hidden"], simulated["spec"]["tokens"]) == (1024, 512)


def test_what_fits_nowhere_says_so_first_and_ends_well(tmp_path: Path) -> None:
    words = ("plan", "llama3-70B", "--cluster", "dgx-a100", "--batch", "64", "--out", "out")
    ended = here(*words, folder=tmp_path)
    assert ended.code == 0
    assert "DOES NOT FIT: of " in " ".join(ended.out.split())
    found = here(*words, "--json", folder=tmp_path).json
    assert found["fits"] is False
    assert not any(one["fits"] for one in found["best"])
    assert "fits on" in found["remedy"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plan"], "nothing says what to plan"),
        (["plan", "llama3-8B"], "nothing says on which cluster"),
        (["plan", "llama3-8C", "--cluster", "dgx-h100"], "there is no model 'llama3-8C'"),
        (["plan", "gpt", "--cluster", "dgx-h100", "--layers", "8"], "give --hidden, --heads too"),
        ([*PLAN, "--hidden", "2048"], "give --ffn too"),
        ([*PLAN, "--tensor", "3"], "3 tensor ranks do not divide the 32 heads"),
        ([*PLAN, "--gpus", "7"], "no layout of llama3-8B divides a batch of 64 rows among 7 ranks"),
        ([*PLAN, "--gpus", "none"], "'none': write numbers such as 8, 2,4,8"),
        ([*PLAN, "--cost", "2.5/day"], "write what a device costs in an hour"),
        ([*PLAN, "--explain", "tensor"], "write NAME=VALUE"),
        ([*PLAN, "--simulate", "-1"], "--simulate is -1: it must be at least 0"),
        ([*PLAN, "--jobs", "4"], "--jobs and --cache are for layouts that are simulated"),
        (["plan", "none.csv", "--validate"], "none.csv"),
        (["plan", "--validate", "--cache", "kept"], "--cache is about a plan"),
        (["plan", "--validate", "--tensor", "8"], "--tensor is about a plan"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    ended = here(*words, "--json", folder=tmp_path)
    assert ended.code == 2
    assert sentence in ended.json["error"]
    assert not list(tmp_path.iterdir())


COLUMNS = (
    "source,model,params,hidden,layers,heads,kv_heads,ffn,seq,vocab,gpu,n_gpus,tp,pp,vpp,dp,cp,ep,"
    "sp,micro_batch,global_batch,precision,recompute,zero_fsdp,step_s,tflops_per_gpu,mfu_pct,"
    "tokens_per_s_gpu,mem_gib,target,n_logs,complete,note"
)


def test_rows_that_were_measured_are_predicted(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "source": "mine", "model": "8B", "hidden": 4096, "layers": 32, "heads": 32, "kv_heads": 8,
        "ffn": 14336, "seq": 8192, "vocab": 128256, "gpu": "H100", "n_gpus": 8, "tp": 1, "pp": 1,
        "dp": 8, "micro_batch": 1, "global_batch": 128, "precision": "bf16", "recompute": "none",
        "zero_fsdp": "ZeRO-1", "step_s": 15.0,
    }  # fmt: skip
    row = ",".join(str(said.get(name, "")) for name in COLUMNS.split(","))
    (tmp_path / "rows.csv").write_text(f"{COLUMNS}\n{row}\n")
    found = here("plan", "--validate", "rows.csv", "--json", folder=tmp_path).json
    (one,) = found["rows"]
    assert (found["verb"], one["row"], one["expressible"]) == ("plan", 0, True)
    assert 0 < one["mfu"] < 1
    assert here("plan", "--validate", "rows.csv", folder=tmp_path).out.startswith("1 of 1 rows")
