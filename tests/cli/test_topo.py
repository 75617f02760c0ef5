"""The verb topo as its users run it."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command import MPIEXEC, here, run

from forked import forked
from steptime.cluster.files import cluster_named

SAVED = Path(__file__).parent.parent / "topo" / "saved"
WITHOUT = """
import sys
from steptime.cli import main
sys.argv = ["steptime", *sys.argv[1:]]
code = main()
print(*sorted({"torch", "plotly"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""

OF_FEW_BYTES = """
from steptime.study import calibrate
calibrate.measure_calls.__defaults__ = ((4 << 10, 256 << 10),)
"""
"""Calls are timed at two sizes, which takes a tenth of the time."""


def test_this_machine_without_torch(tmp_path):
    command = [sys.executable, "-c", WITHOUT, "topo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "\n")
    host = json.loads(done.stdout)
    assert host["verb"] == "topo"
    assert len(host["marks"]) == len(host["parts"]) == len(host["expected_GBps"]) > 0
    assert host["parts"][0]["kind"] in ("GPU", "CPU")
    assert list(tmp_path.iterdir()) == []


def test_another_machine_explained_within_80_columns(tmp_path):
    words = ("topo", "--file", str(SAVED / "pcie-2-sockets.txt"), "--explain", "--svg", "x.svg")
    ended = here(*words, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert max(map(len, ended.out.splitlines())) <= 80
    text = " ".join(ended.out.split())
    assert "PIX 24 GB/s One PCIe switch" in text
    assert "A ring over all GPUs must cross SYS" in text
    assert "SYS*" in text
    assert "\x1b" not in text
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_what_another_machine_is_in_json(tmp_path):
    ended = here("topo", "--file", str(SAVED / "dgx-1v.txt"), "--json", folder=tmp_path)
    host = ended.json
    assert host["ring"]["order"] == [f"GPU{n}" for n in (0, 3, 2, 1, 5, 6, 7, 4)]
    assert (host["ring"]["mark"], host["ring"]["expected_GBps"]) == ("NV2", 40.0)
    assert host["expected_GBps"][0][0] is None
    assert "assuming Volta" in host["basis"]
    assert [found["mark"] for found in host["explain"]] == ["NV2", "NV1", "PIX", "PHB", "SYS"]


@pytest.mark.parametrize(
    "backend",
    [
        "gloo",
        pytest.param(
            "mpi",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not MPIEXEC, reason="there is no MPI here"),
            ],
        ),
    ],
)
def test_measured_links_are_a_cluster(backend, tmp_path):
    words = ("topo", "--measure", "--ranks", "2", "--threads", "1", "--json", "--backend", backend)
    start = partial(forked, led=OF_FEW_BYTES) if backend == "gloo" else run
    ended = start(*words, "--cluster-file", "c.toml", folder=tmp_path)
    assert ended.code == 0, ended.err
    found = ended.json
    assert found["source"] == found["device"]["source"] == "measured"
    assert json.loads((tmp_path / found["run"] / "run.json").read_text()) == found
    cluster = cluster_named(tmp_path / "c.toml")
    assert (cluster.hosts, cluster.devices) == (1, 2)
    assert "measured by steptime topo" in cluster.source
    for pair in found["pairs"]:
        port, shared, link, _ = cluster.paths([pair["src"]], [pair["dst"]])[0]
        assert cluster.links.bandwidth[link] / 1e9 == pytest.approx(pair["bandwidth_GBps"], 1e-3)
        assert cluster.links.latency[link] * 1e6 == pytest.approx(pair["latency_us"], 1e-3)
    assert cluster.links.bandwidth[shared] / 1e9 == pytest.approx(found["together_GBps"], 1e-3)
    assert cluster.links.bandwidth[port] / 1e9 == pytest.approx(found["port_GBps"], 1e-3)
    for call in found["calls"]:
        (measured,) = cluster.calls[call["kind"]]
        assert (measured.ranks, measured.algorithm) == (2, call["algorithm"])
        assert measured.seconds == pytest.approx(call["seconds"], rel=1e-3)
        assert measured.late == pytest.approx(call["late"], rel=1e-3, abs=1e-9)
        assert measured.late_beside == pytest.approx(call["late_beside"], rel=1e-3, abs=1e-9)
        parts = (measured.late_beside, measured.work, measured.rest)
        sizes = 0 if call["kind"] == "post" else len(measured.sizes)
        assert [len(part) for part in parts] == [sizes] * 3
        assert sum(measured.rest) > 0 or not sizes
    assert cluster.cores * found["threads"] == len(os.sched_getaffinity(0))
    assert len(found["calls"]) == 10
    assert cluster.device.flops["fp32"] == pytest.approx(found["device"]["flops"]["fp32"], 1e-3)
    assert cluster.device.memory_bandwidth > 1e8
    if backend == "mpi":  # whose ranks have no torch
        assert "MPICH" in found["library"] or "Open MPI" in found["library"]
        assert found["device"]["flops"].keys() == {"fp32"}


def test_the_page_shows_what_its_commands_print(tmp_path):
    text = (SAVED.parent.parent.parent / "docs" / "topo.md").read_text()
    blocks = re.findall(r"^```console\n\$ steptime (topo --file .*)\n([^`]*)```", text, re.M)
    assert blocks
    for command, shown in blocks:
        words = command.replace("tests/topo/saved", str(SAVED)).split()
        ended = here(*words, folder=tmp_path)
        assert ended.out.rstrip("\n") == shown.rstrip("\n"), command


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--file missing.txt", "cannot read the topology missing.txt: No such file or directory"),
        ("--file wrong.txt", "wrong.txt is neither the output of nvidia-smi topo -m nor"),
        ("--ranks 2", "--ranks belongs to --measure"),
        ("--backend nccl", "--backend belongs to --measure"),
        ("--cluster-file x.toml", "--cluster-file belongs to --measure"),
        ("--measure --file wrong.txt", "leave --file, --svg and --explain out"),
        ("--measure --ranks 1", "at least 2 ranks"),
    ],
)
def test_what_is_refused(words, says, tmp_path):
    (tmp_path / "wrong.txt").write_text("no matrix\n")
    ask = forked if "--measure" in words else here  # a rank ends its process
    ended = ask("topo", *words.split(), "--json", folder=tmp_path)
    assert ended.code == 2
    assert says in ended.json["error"]
    assert ended.json["error"] == ended.err.removeprefix("steptime: ").rstrip("\n")
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.txt"]


def test_a_picture_that_cannot_be_written(tmp_path):
    ended = here("topo", "--svg", "nowhere/x.svg", folder=tmp_path)
    assert ended.code == 1
    assert "cannot write nowhere/x.svg: No such file or directory" in ended.err
