"""The verb proxy on a cluster: simulated, and beside live ranks."""

import json
from pathlib import Path

import pytest
from command import here

from forked import forked
from steptime.timeline import read_chrome_trace

DLRM = ("proxy", "dlrm", "--compat", "dnn-cpp-proxies")
GPT3 = ("proxy", "gpt3-175B", "--tensor", "8", "--pipeline", "8")
HOST = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "8GB"
memory_bandwidth = "10GB/s"
[host]
devices = 2
[inside]
kind = "bus"
bandwidth = "2GB/s"
latency = "100us"
"""


def test_a_proxy_on_a_cluster_starts_no_rank(tmp_path: Path) -> None:
    words = (*DLRM, "--cluster", "dgx-a100", "--out", "out", "--json")
    told = here(*words, folder=tmp_path).json
    assert told == json.loads((tmp_path / "out" / "run.json").read_text())
    assert (told["source"], told["cluster"], told["ranks"]) == ("simulated", "dgx-a100", 8)
    assert told["phases"]["compute"]["mean_s"] == pytest.approx(3091e-6)
    assert told["step_time_s"]["median"] > 3091e-6
    assert set(told["under_way"]) == {"data"}
    for one in told["per_rank"]:
        # As many as an optimal algorithm, or more for being quicker.
        assert one["simulated_bytes"]["sent"] >= one["predicted_bytes"]["data"]["sent"]
        assert one["simulated_bytes"]["sent"] == one["simulated_bytes"]["received"]
    trace = read_chrome_trace(tmp_path / "out" / "trace.json.gz")
    assert (trace.source, trace.ranks) == ("simulated", 8)


@pytest.mark.slow
def test_simulate_answers_the_same_words_with_the_same_time(tmp_path: Path) -> None:
    words = ("gpt3-13B", "--cluster", "dgx-h100-pod", "--ranks", "32", "--tensor", "8")
    words += ("--pipeline", "2", "--strategy", "overlapped", "--fidelity", "collective", "--json")
    simulated = here("simulate", *words, "--out", "there", folder=tmp_path).json
    proxied = here("proxy", *words, "--out", "proxied", folder=tmp_path).json
    assert proxied["step_time_s"]["median"] == simulated["step_time_s"]
    assert proxied["spec"] == simulated["spec"]
    assert proxied["spec"]["precision"] == "bf16"


def test_the_page_for_people_says_that_it_is_simulated(tmp_path: Path) -> None:
    ended = here(*DLRM, "--cluster", "dgx-a100", "--ranks", "4", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "on the slowest rank, simulated" in ended.out
    assert "waiting for data" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.slow
def test_sixteen_thousand_ranks_take_seconds(tmp_path: Path) -> None:
    there = here(*GPT3, "--cluster", "h100-16384", "--json", folder=tmp_path)
    told = there.json
    assert (told["ranks"], told["fidelity"]) == (16384, "collective")
    assert told["divided_ranks"] <= 32
    assert sum(of["mean_s"] for of in told["phases"].values()) == pytest.approx(
        told["step_time_s"]["median"], rel=0.05
    )


@pytest.mark.slow
def test_live_and_simulated_agree_where_computing_takes_the_time(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(HOST)
    words = ("--layers", "1", "--tokens", "64", "--batch", "2", "--scale-bytes", "1/4096")
    live = ("--ranks", "2", "--steps", "3", "--warmup", "1", "--live", "--cluster", "host.toml")
    ended = forked("proxy", "gpt2-124M", *words, *live, "--json", "--out", "out", folder=tmp_path)
    assert ended.code == 0, ended.err
    told = ended.json
    assert (told["source"], told["simulated"]["source"]) == ("measured", "simulated")
    assert told["step_time_s"]["median"] > 0.01
    # On a busy machine what is measured takes longer, and never less.
    for error in (told["error"]["step_time"], told["error"]["phases"]["compute"]):
        assert -0.9 < error < 0.1
    assert read_chrome_trace(tmp_path / "out" / "trace.json.gz").source == "measured"
    assert read_chrome_trace(tmp_path / "out" / "simulated.json.gz").source == "simulated"


@pytest.mark.slow
def test_both_stand_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(HOST)
    live = ("--ranks", "2", "--steps", "2", "--live", "--cluster", "host.toml", "--out", "out")
    ended = forked(*DLRM, *live, "--backend", "steptime", folder=tmp_path)
    assert ended.code == 0, ended.err
    (step,) = (line for line in ended.out.splitlines() if line.startswith("step   "))
    assert step.endswith("%")
    assert "                                  measured      simulated          error" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--live",), "--live goes with --cluster"),
        (("--fidelity", "message"), "--fidelity goes with --cluster"),
        (("--cluster", "dgx-a100", "--live", "--dry-run"), "leave one of them out"),
        (("--cluster", "dgx-a100", "--verify"), "--verify is about live ranks"),
        (("--cluster", "dgx-a100", "--steps", "5"), "--steps is about live ranks"),
        (("--cluster", "dgx-a100", "--backend", "mpi"), "--backend is about live ranks"),
        (("--cluster", "dgx-a100", "--threads", "2"), "--threads is about live ranks"),
        (("--cluster", "laptop", "--ranks", "64"), "64 ranks do not fit on laptop"),
        (("--cluster", "laptop", "--ranks", "64", "--live"), "64 ranks do not fit on laptop"),
        (("--cluster", "nowhere"), "no cluster is called 'nowhere'"),
        (("--cluster", "x.toml", "--dry-run"), "cannot read the cluster file x.toml"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ended = here(*DLRM, *words, folder=tmp_path)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_need_not_start_what_is_simulated(tmp_path, monkeypatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    ended = here(*DLRM, "--cluster", "dgx-a100", folder=tmp_path)
    assert ended.code == 2
    assert "run it without the launcher" in ended.err
