import json
from pathlib import Path

import pytest
from command import MPIEXEC, Ended, here, run

from forked import forked

DLRM = ("proxy", "dlrm", "--compat", "dnn-cpp-proxies", "--ranks", "2")
SMALL = ("--layers", "2", "--tokens", "32")


def on(backend: str, *words: str, folder: Path) -> Ended:
    """Run the command on ranks of a backend, into the folder out."""
    if backend == "mpi" and not MPIEXEC:
        pytest.skip("there is no MPI here")
    start = run if backend == "mpi" else forked
    return start(*words, "--out", "out", folder=folder)


@pytest.mark.slow
def test_the_plan_of_any_number_of_ranks_starts_none(tmp_path: Path) -> None:
    words = ("--ranks", "16384", "--tensor", "8", "--pipeline", "8", "--dry-run", "--json")
    told = here("proxy", "gpt3-175B", *words, folder=tmp_path).json
    assert told["step_time_s"] is None
    assert told["axes"] == {"data": 256, "tensor": 8, "pipeline": 8, "expert": 1, "context": 1}
    last = told["per_rank"][16383]
    assert last["coords"] == {"tensor": 7, "data": 255, "pipeline": 7}
    assert {(one["kind"], one["axis"], one["group_size"]) for one in last["collectives"]} == {
        ("all_reduce", "tensor", 8),
        ("all_reduce", "data", 256),
        ("all_reduce", "tensor+pipeline", 64),
    }
    assert last["sends"]["calls"] == 33  # 32 micro-batches backward, and the tied table
    assert list(tmp_path.iterdir()) == []


def test_a_plan_places_every_axis_and_counts_beyond_32_bits(tmp_path: Path) -> None:
    axes = ("--tensor", "2", "--context", "2", "--expert", "8", "--pipeline", "2")
    words = ("--ranks", "128", *axes, "--tokens", "8192", "--sequence-parallel", "--dry-run")
    told = here("proxy", "mixtral-8x7B", *words, "--json", folder=tmp_path).json
    assert told["axes"] == {"data": 2, "tensor": 2, "pipeline": 2, "expert": 8, "context": 2}
    assert told["per_rank"][127]["coords"] == dict.fromkeys(told["axes"], 1) | {"expert": 7}
    rows = {row["axis"]: row for row in told["placement"]}
    assert [*rows][:5] == ["tensor", "context", "expert", "data", "pipeline"]
    assert (rows["expert"]["in_host"], rows["expert"]["hosts"]) == (2, 4)
    moved = told["per_rank"][0]["predicted_bytes"]
    assert rows["expert"]["sent_bytes"] == moved["expert"]["sent"]
    elements = {
        (one["kind"], one["axis"]): one["elements"] for one in told["per_rank"][0]["collectives"]
    }
    assert elements["all_gather", "tensor"] > 2**31
    memory = told["model_memory"]
    parts = ("parameters", "gradients", "optimizer", "passing", "activations")
    assert memory["total"] == sum(memory[part] for part in parts)
    lines = here("proxy", "mixtral-8x7B", *words, folder=tmp_path).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("memory of the model, computed:") for line in lines)


def test_llama_70b_has_more_elements_a_rank_than_32_bits_count(tmp_path: Path) -> None:
    words = ("--ranks", "64", "--tensor", "4", "--pipeline", "8", "--dry-run", "--json")
    told = here("proxy", "llama3-70B", *words, folder=tmp_path).json
    reduced = [
        row["elements"]
        for one in told["per_rank"]
        for row in one["collectives"]
        if row["axis"] == "data"
    ]
    assert len(reduced) == 64
    assert max(reduced) > 2**31
    sent = [one["predicted_bytes"]["data"]["sent"] for one in told["per_rank"]]
    assert sent == [4 * elements for elements in reduced]  # a ring of two, in fp32


ROWS_OF_EXPERTS = ("--expert", "2", "--context", "2")
SHARDS = ("--tensor", "2", "--sequence-parallel", "--zero", "3")


@pytest.mark.parametrize(
    ("words", "backend"),
    [
        (ROWS_OF_EXPERTS, "gloo"),
        pytest.param(ROWS_OF_EXPERTS, "mpi", marks=pytest.mark.slow),
        pytest.param(SHARDS, "mpi", marks=pytest.mark.slow),
    ],
)
def test_experts_rows_and_shards_arrive_as_they_were_sent(
    words: tuple[str, ...], backend: str, tmp_path: Path
) -> None:
    small = ("--layers", "1", "--tokens", "32", "--scale-bytes", "1/4096", "--ranks", "4")
    live = ("--backend", backend, "--steps", "1", "--warmup", "1", "--verify", "--json")
    ended = on(backend, "proxy", "mixtral-8x7B", *small, *words, *live, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.json["verified"]["wrong"] == 0
    assert ended.json["verified"]["checked"] > 1000


def test_the_original_dlrm_keeps_its_counts(tmp_path: Path) -> None:
    words = ("proxy", "dlrm", "--compat", "dnn-cpp-proxies", "--ranks", "8", "--dry-run", "--json")
    (one, *_) = here(*words, folder=tmp_path).json["per_rank"]
    assert one["collectives"] == [
        {"kind": "all_to_all", "axis": "data", "group_size": 8, "calls": 2, "elements": 65536},
        {"kind": "all_reduce", "axis": "data", "group_size": 8, "calls": 2, "elements": 777601},
    ]
    assert one["compute_s"] == pytest.approx(3091e-6)
    assert one["predicted_bytes"]["data"]["sent"] == 1835008 + 5443207


@pytest.mark.parametrize("backend", ["gloo", pytest.param("mpi", marks=pytest.mark.slow)])
def test_a_proxy_runs_live_and_every_value_is_right(backend: str, tmp_path: Path) -> None:
    words = ("--backend", backend, "--steps", "2", "--warmup", "1", "--verify", "--json")
    ended = on(backend, *DLRM, *words, folder=tmp_path)
    assert ended.code == 0, ended.err
    told = ended.json
    assert told == json.loads((tmp_path / "out" / "run.json").read_text())
    assert told["source"] == "measured"
    assert told["step_time_s"]["median"] >= 3091e-6
    assert told["verified"]["wrong"] == 0
    # 3 steps of 2 ranks: two all_to_all of 262144 and two all_reduces
    assert told["verified"]["checked"] == 3 * 2 * (2 * 262144 + 777601)
    assert len(told["steps_s"]) == 2
    assert (tmp_path / "out" / "trace.json.gz").exists()
    if backend == "gloo":
        for one in told["per_rank"]:
            predicted = one["predicted_bytes"]["data"]["sent"]
            assert one["wire_bytes"]["sent"] == pytest.approx(predicted, rel=0.02)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpt2-124M", "--ranks", "8", "--tensor", "3"), "the nearest number of ranks that goes"),
        (("gpt2-124M", "--ranks", "5", "--pipeline", "5"), "the nearest that do are 4 and 6"),
        (("gpt2-124M", "--ranks", "3", "--context", "3"), "the nearest that do are 2 and 4"),
        (("gpt2-124M", "--ranks", "2", "--expert", "2"), "has no experts to spread"),
        (("mixtral-8x7B", "--ranks", "16", "--expert", "16"), "the most that go are 8"),
        (("gpt2-124M", "--ranks", "4", "--pipeline", "2", "--zero", "3"), "zero3 does not go with"),
        (("gpt2-124M", "--zero", "1", "--strategy", "replicated"), "contradict each other"),
        (("gpt2-124M", "--zero", "4"), "ZeRO has the stages 0, 1, 2 and 3"),
        (("gpt2-124M", "--sequence-parallel"), "give --tensor 2 or more"),
        (("gpt2-124M", "--expert", "0"), "--expert is 0: it must be at least 1"),
        (("gpt2-124M", "--ranks-per-host", "0"), "--ranks-per-host is 0"),
        (("dlrm", "--compat", "dnn-cpp-proxies", "--zero", "1"), "leave it out"),
        (("gpt2-124M", "--scale-bytes", "0"), "write a fraction up to 1"),
        (("gpt2-124M", "--scale-bytes", "much"), "write a fraction, as 1/16"),
        (("gpt2-124M", "--compute", "busy"), "give --device-flops, as 312TFLOP/s"),
        (("gpt2-124M", "--micro-batches", "0"), "it must be at least 1"),
        (("gpt2-124M", "--backend", "nccl"), "the backend nccl needs a GPU for every rank"),
        (("gpt3-175B", "--ranks", "4"), "of memory and"),
        (("dlrm", "--compat", "dnn-cpp-proxies", "--tensor", "2"), "leave it out"),
        (("gpt9",), "gpt9"),
        (("resnet50", "--layers", "3"), "is a dimension of transformers"),
        (("describe",), "proxy describe MODEL"),
        (("gpt2-124M", "gpt2-355M"), "proxy describe MODEL"),
    ],
)
def test_what_cannot_be_is_refused_before_any_rank_starts(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ended = here("proxy", *words, folder=tmp_path)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_smaller_messages_are_told_loudly(tmp_path: Path) -> None:
    words = ("--ranks", "4", "--pipeline", "2", "--scale-bytes", "1/16", "--dry-run", *SMALL)
    told = here("proxy", "gpt2-124M", *words, folder=tmp_path).out
    assert "NOT THE REAL MESSAGES: each is shrunk to 1/16 of its bytes" in told
    assert max(map(len, told.splitlines())) <= 80


def test_models_are_listed_and_described(tmp_path: Path) -> None:
    models = here("proxy", "list", "--json", folder=tmp_path).json["models"]
    assert {one["name"]: one["parameters"] for one in models}["gpt2-124M"] == 124_439_808
    told = here("proxy", "describe", "gpt2-124M", folder=tmp_path)
    assert told.code == 0
    assert "124,439,808" in told.out


def test_what_is_wrong_with_an_original_is_told_with_its_answer(tmp_path: Path) -> None:
    words = ("dlrm", "--compat", "dnn-cpp-proxies", "--ranks", "4", "--cluster", "dgx-a100")
    ended = here("proxy", *words, "--out", "out", folder=tmp_path)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.startswith("known defects"))
    assert all(len(line) <= 80 for line in lines[at : at + 3])
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["defects"][0].split()[0] in lines[at]
    assert len(record["defects"]) > 3
