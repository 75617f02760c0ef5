"""Files of every kind that a verb reads, and how each is broken."""

import gzip
import json
import os
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from steptime.cli import main

READERS: dict[str, list[list[str]]] = {
    "sim/run.json": [
        *(["report", "sim"], ["diff", "sim", "sim2"], ["history", "."], ["report", "sim2", "sim"]),
        *(["export", "sim", "--to", "perfetto"], ["export", "sim", "--to", "goal"]),
    ],
    "sim/trace.json.gz": [
        *(["report", "sim"], ["export", "sim", "--to", "paraver"], ["diff", "sim", "sim2"]),
        *(["export", "sim", "--to", "csv"], ["report", "sim", "sim2"]),
    ],
    "sim/program.json.gz": [["export", "sim", "--to", "chakra"], ["export", "sim", "--to", "goal"]],
    "prox/run.json": [["report", "prox"], ["history", "."], ["export", "prox", "--to", "csv"]],
    "scaled/run.json": [["report", "scaled"], ["history", "."], ["diff", "scaled", "sim"]],
    "cluster.toml": [
        *(
            ["cluster", "show", "cluster.toml"],
            ["cluster", "show", "cluster.toml", "--svg", "a.svg"],
        ),
        ["simulate", "gpt2-nano", "--cluster", "cluster.toml", "--ranks", "2"],
    ],
    "model.toml": [
        ["proxy", "describe", "model.toml"],
        ["simulate", "model.toml", "--cluster", "dgx-h100", "--ranks", "2"],
    ],
    "config.json": [["proxy", "describe", "config.json"], ["proxy", "config.json", "--dry-run"]],
    "flows.csv": [["simulate", "--flows", "flows.csv", "--cluster", "laptop"]],
    "times.csv": [["proxy", "gpt2-nano", "--dry-run", "--times", "times.csv"]],
    "ring.xml": [["verify", "ring.xml", "--ranks", "4"], ["show", "ring.xml", "--ranks", "4"]],
    "topo.xml": [["topo", "--file", "topo.xml"], ["topo", "--file", "topo.xml", "--explain"]],
    "topo.txt": [["topo", "--file", "topo.txt"], ["topo", "--file", "topo.txt", "--svg", "a.svg"]],
    "chakra/step.0.et": [["simulate", "chakra", "--cluster", "laptop"]],
    "profile.json": [
        *(["report", "profile.json", "--out", "a.html"], ["diff", "profile.json", "dump.json"]),
        ["simulate", "profile.json", "--cluster", "laptop"],
    ],
    "dump.json": [["report", "dump.json", "--out", "a.html"]],
    "events.json": [["report", "events.json", "--out", "a.html"]],
    "graph.json": [["simulate", "graph.json", "--cluster", "laptop"]],
    "nsight.sqlite": [["report", "nsight.sqlite", "--out", "a.html"]],
    "tokens.bin": [["train", "--data", "tokens.bin"]],
    "text.txt": [["train", "--data", "text.txt"]],
    "weights.bin": [["train", "--init", "weights.bin", "--data", "text.txt"]],
    "checkpoint/DONE": [["train", "--resume", "checkpoint", "--data", "text.txt"]],
    "checkpoint/state_00000.npz": [["train", "--resume", "checkpoint", "--data", "text.txt"]],
}
TINY = [*("--layers", "1", "--heads", "2", "--hidden", "16", "--tokens", "16")]
SHORT = [*("--steps", "1", "--batch", "4", "--ranks", "1", "--val-batches", "1")]
VALUES: list[Any] = [None, True, [], {}, "", "x" * 9999, "nan", -1, 0, 1, 2.5, -0.0, 1e308, 1e-308]
VALUES += [
    10**18,
    10**30,
    1 << 31,
    1 << 63,
    -(1 << 63),
    [[]],
    {"a": {}},
    "é",
    "\x1b[2J",
    "</script>",
]
LITERALS = [
    *("", "-1", "0", "1e999", "nan", "inf", "[]", "{}", '""', "true", "9" * 30, "0x" + "f" * 9999)
]
LITERALS += ["[" * 3000, '"' + "x" * 9999 + '"', "1e-300", "'1e999GB/s'", "2", "65536", "[[1], 2]"]
CLUSTER = """
title = "two hosts"
host = { count = 2, devices = 2 }
nic = { per_host = 1, bandwidth = "10GB/s", latency = "5us" }

[device]
name = "a device"
memory = "40GB"
memory_bandwidth = "1TB/s"
flops = { fp32 = "20TFLOP/s", bf16 = "200TFLOP/s" }

[inside]
kind = "switch"
bandwidth = "100GB/s"
latency = "2us"

[network]
kind = "star"

[placement]
order = "round_robin"

[speeds]
"0.1" = 0.9
"""
MODEL = """
family = "llama"
layers = 2
hidden = 64
heads = 4
context = 32
vocabulary = 100
"""
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
}
CONFIG |= {"intermediate_size": 128, "max_position_embeddings": 64, "vocab_size": 100}
XML = """<system version="1"><cpu numaid="0" affinity="000000ff" arch="x86_64" vendor="GenuineIntel"
 familyid="6" modelid="85"><pci busid="0000:01:00.0" class="0x060400" link_speed="16 GT/s"
 link_width="16"><pci busid="0000:02:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
<gpu dev="0" sm="80" rank="0"><nvlink target="0000:03:00.0" count="4" tclass="0x030200"/></gpu>
</pci><pci busid="0000:03:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
<gpu dev="1" sm="80" rank="1" gdr="1"/></pci></pci><nic><net name="mlx5_0" dev="0" speed="100000"/>
</nic></cpu></system>"""
MATRIX = """	GPU0	GPU1	NIC0	CPU Affinity	NUMA Affinity
GPU0	 X 	NV4	PXB	0-15	0
GPU1	NV4	 X 	SYS	16-31	1
NIC0	PXB	SYS	 X
"""


_SLICES = [
    ("user_annotation", "ProfilerStep#0", 1, 0, 900),
    ("user_annotation", "ProfilerStep#1", 1, 1000, 900),
    ("cuda_runtime", "cudaLaunchKernel", 1, 10, 5),
    ("kernel", "gemm", 7, 100, 300),
    ("kernel", "ncclDevKernel_AllReduce", 9, 1100, 300),
]
_COMM = {"Collective name": "allreduce", "In msg nelems": 9, "dtype": "Float", "Group size": 1}
PROFILE = {
    "schemaVersion": 1,
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "pg_config": []},
    "baseTimeNanoseconds": 1790857026000000000,
    "traceEvents": [
        {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": at, "dur": dur}
        | {"args": {"correlation": 3, **(_COMM if tid == 9 else {})}}
        for cat, name, tid, at, dur in _SLICES
    ],
}
DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0]"}},
    "entries": [
        {
            "process_group": ["0", "default_pg"],
            "profiling_name": "nccl:all_reduce",
            "collective_seq_id": number,
            "op_id": number,
            "time_created_ns": 1795368669567820659 + number,
            "time_discovered_completed_ns": 1795368669567890659,
            "input_sizes": [[6]],
            "input_dtypes": ["Long"],
            "state": "completed",
        }
        for number in range(3)
    ],
}
GRAPH = {"workload_graph": [{"Id": 1, "Name": "a", "data_deps": [], "runtime": 3}]}
EXPORT = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, shortName INTEGER);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllGather');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 900, 0, 7, 1, 1), (500, 1900, 0, 9, 2, 2);
"""


@dataclass(frozen=True)
class Case:
    """A command; ``broken`` says which file of it is, and how. ``made``: when, in seconds."""

    words: list[str]
    broken: str
    made: float
    has_empty: bool = False
    """Whether its own folder has empty ones."""


def make_samples(folder: Path) -> None:
    """Whole files of every kind, as steptime leaves them or people write them."""
    texts = {"cluster.toml": CLUSTER, "model.toml": MODEL, "config.json": json.dumps(CONFIG)}
    texts |= {"flows.csv": "src,dst,bytes,start_s\n0,1,1000000,0\n1,2,5000,0.001\n"}
    texts |= {"times.csv": "name,seconds\nforward,1ms\nbackward,2ms\nnorm,1us\nupdate,3us\n"}
    texts |= {"topo.xml": XML, "topo.txt": MATRIX, "text.txt": "All work and no play. " * 999}
    for name, text in texts.items():
        (folder / name).write_text(text)
    traces = {"profile.json": PROFILE, "dump.json": DUMP, "graph.json": GRAPH}
    traces["events.json"] = {"traceEvents": PROFILE["traceEvents"]}
    for name, trace in traces.items():
        (folder / name).write_text(json.dumps(trace))
    with closing(sqlite3.connect(folder / "nsight.sqlite")) as database:
        database.executescript(EXPORT)
    here = ["gpt2-nano", "--cluster", "dgx-h100", "--ranks", "2"]
    for words in (
        ["simulate", *here, "--out", "sim"],
        ["simulate", *here, "--out", "sim2", "--micro-batches", "2", "--strategy", "replicated"],
        ["proxy", "gpt2-nano", "--cluster", "laptop", "--ranks", "2", "--out", "prox"],
        ["scale", *here[:-1], "1,2", "--strategies", "replicated", "--out", "scaled"],
        ["export", "sim2", "--to", "chakra", "--out", "chakra"],
        ["verify", "all_reduce/ring", "--ranks", "4", "--export", "ring.xml"],
        [
            "train",
            *TINY,
            *SHORT,
            "--data",
            "text.txt",
            "--checkpoint-every",
            "1",
            "--out",
            "trained",
        ],
    ):
        quietly(words, folder)
    kept = next(path.parent for path in folder.glob("trained/**/DONE"))
    kept.rename(folder / "checkpoint")
    (folder / "weights.bin").write_bytes((folder / "checkpoint" / "model.bin").read_bytes())
    header = [20240520, 1, 5000, *[0] * 253]
    words_of = b"".join(number.to_bytes(4, "little") for number in header)
    (folder / "tokens.bin").write_bytes(words_of + bytes(range(250)) * 40)
    shutil.rmtree(folder / "trained")
    for path in folder.glob("**/report.html"):
        path.unlink()


def quietly(words: list[str], folder: Path) -> None:
    """A command that must succeed: in this process, which it warms, or in one of its own."""
    if words[0] == "train":  # ranks leave threads behind, which no fork takes along
        child = os.fork()
        if not child:
            try:
                in_this_process(words, folder)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, words
    else:
        in_this_process(words, folder)


def in_this_process(words: list[str], folder: Path) -> None:
    here, err = Path.cwd(), StringIO()
    os.chdir(folder)
    try:
        argv = patch("sys.argv", ["steptime", *words])
        with argv, redirect_stdout(StringIO()), redirect_stderr(err):
            code = main()
    finally:
        os.chdir(here)
    assert code == 0, (words, err.getvalue())


def file_case(pick: random.Random, folder: Path) -> Case:
    """A command that reads a file which is broken in some way."""
    names = [name for name in READERS if (folder / name).exists()]
    name = pick.choice(names)
    words = pick.choice(READERS[name])
    if words[0] == "train":
        words = [*words, *SHORT, *([] if {"--init", "--resume"} & set(words) else TINY)]
        if "--resume" in words:
            words = [*words, *TINY]
    how = broken(pick, folder / name)
    made = time.time()
    if pick.random() < 0.5:
        words = [*words, "--json"]
    empty = how.startswith("folder")
    return Case(words, f"{name}: {how}", made, has_empty=empty)


def broken(pick: random.Random, path: Path) -> str:
    """Break a file, and say how."""
    if pick.random() < 0.08:
        return replaced(pick, path)
    content = path.read_bytes()
    if path.suffix == ".gz":
        if pick.random() < 0.2:
            path.write_bytes(bomb() if pick.random() < 0.3 else bytes_broken(pick, content))
            return "packed bytes"
        how, inside = structure_broken(pick, ".json", gzip.decompress(content))
        path.write_bytes(gzip.compress(inside, 1))
        return how
    suffix = ".json" if path.name == "DONE" else path.suffix
    how, inside = structure_broken(pick, suffix, content)
    path.write_bytes(inside)
    return how


def replaced(pick: random.Random, path: Path) -> str:
    """Put something in the place of a file that is none."""
    how = pick.choice(["pipe", "folder", "loop", "dangling", "device", "gone", "empty", "socket"])
    path.unlink()
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    elif how == "empty":
        path.touch()
    elif how != "gone":
        targets = {"loop": path.name, "dangling": "nowhere", "device": "/dev/zero"}
        path.symlink_to(targets.get(how, "/run/systemd/journal/socket"))
    return how


@cache
def bomb() -> bytes:
    """A gigabyte, packed into a megabyte."""
    piece = gzip.compress(bytes(1 << 26), 9)
    return piece * 16


def structure_broken(pick: random.Random, suffix: str, content: bytes) -> tuple[str, bytes]:
    """A content with something of its structure changed, or only bytes of it."""
    kinds: dict[str, Callable[[random.Random, str], str]] = {
        ".json": json_broken,
        ".toml": lines_broken,
        ".xml": xml_broken,
        ".csv": cells_broken,
        ".txt": cells_broken,
    }
    if suffix not in kinds or pick.random() < 0.2:
        return "bytes", bytes_broken(pick, content)
    text = content.decode()
    for _ in range(pick.choice([1, 1, 1, 2, 5])):
        try:
            text = kinds[suffix](pick, text)
        except (ValueError, RecursionError):  # broken already
            break
        if len(text) > 1 << 20:
            break
    return "structure", text.encode(errors="replace")


def bytes_broken(pick: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    kind = pick.choice(["flip", "flip", "cut", "insert", "double", "zero", "other"])
    place = pick.randrange(len(changed) + 1)
    if kind == "flip":
        for _ in range(pick.choice([1, 1, 4, 64])):
            if changed:
                changed[pick.randrange(len(changed))] ^= 1 << pick.randrange(8)
    elif kind == "cut":
        del changed[place:]
    elif kind == "insert":
        changed[place:place] = pick.randbytes(pick.choice([1, 8, 1000]))
    elif kind == "double":
        changed[place:place] = changed[place : place + pick.choice([16, 4096])]
    elif kind == "zero":
        changed[place : place + 64] = bytes(64)
    else:
        changed[:] = pick.randbytes(5000)
    return bytes(changed)


def json_broken(pick: random.Random, text: str) -> str:
    """JSON with a value, a key or an element changed somewhere."""
    if pick.random() < 0.03:
        return pick.choice(["[" * 5000, '{"a":' * 5000, "NaN", "1" * 5000, "[1e999]", '{"a": 1'])
    whole = {"": json.loads(text)}
    at: Any = whole
    key: Any = ""
    while isinstance(at[key], dict | list) and at[key] and (pick.random() < 0.85 or at is whole):
        at = at[key]
        key = pick.choice(list(at)) if isinstance(at, dict) else pick.randrange(len(at))
    kind = pick.random()
    if kind < 0.15 and at is not whole:
        del at[key]
    elif kind < 0.25 and isinstance(at, list):
        at.insert(key, at[pick.randrange(len(at))])
    elif kind < 0.4 and isinstance(at[key], int | float):
        at[key] *= pick.choice([-1, 0, 1000, 1e12, 1 << 40])
    else:
        at[key] = pick.choice(VALUES)
    return json.dumps(whole[""])


def lines_broken(pick: random.Random, text: str) -> str:
    """TOML with a value or a line changed."""
    values = list(re.finditer(r'(?<== )("[^"]*"|[\w.]+|\{.*\})', text))
    if values and pick.random() < 0.7:
        one = pick.choice(values)
        return text[: one.start()] + pick.choice(LITERALS) + text[one.end() :]
    lines = text.splitlines()
    if not lines:
        return pick.choice(LITERALS)
    place = pick.randrange(len(lines))
    kind = pick.random()
    if kind < 0.4:
        del lines[place]
    elif kind < 0.7:
        lines.insert(place, pick.choice(lines))
    else:
        lines.insert(
            place,
            f"{pick.choice(['a', 'kind', '[a.b]', 'a.' * 500 + 'b'])} = {pick.choice(LITERALS)}",
        )
    return "\n".join(lines) + "\n"


def xml_broken(pick: random.Random, text: str) -> str:
    """XML with an attribute or an element changed."""
    kind = pick.random()
    if kind < 0.04:
        return (
            f'<!DOCTYPE a [<!ENTITY b "{"x" * 99}"><!ENTITY c "{"&b;" * 99}">]><system>&c;</system>'
        )
    if kind < 0.08:
        return re.sub(r"<(pci|gpu|tb)\b", r"<\1><\1", text, count=1) + "<a>" * 5000
    if kind < 0.12:
        inner = re.search(r"<(pci|step)[^>]*>", text)
        return text.replace(inner[0], inner[0] * 3000, 1) + "" if inner else text
    values = list(re.finditer(r'"[^"]*"', text))
    if kind < 0.8 and values:
        one = pick.choice(values)
        new = pick.choice(
            ["", "-1", "9" * 30, "1e999", "x" * 999, "0", "1", "65536", "f" * 40000, "NV"]
        )
        return f'{text[: one.start()]}"{new}"{text[one.end() :]}'
    elements = list(re.finditer(r"<[^/>]+/>", text))
    if not elements:
        return text[: pick.randrange(len(text) + 1)]
    one = pick.choice(elements)
    return text[: one.start()] + one[0] * pick.choice([0, 2, 200]) + text[one.end() :]


def cells_broken(pick: random.Random, text: str) -> str:
    """A table with a cell or a line changed."""
    cells = re.split(r"([,\t\n])", text)
    place = pick.randrange(0, len(cells), 2) if cells else 0
    new = [
        "",
        "-1",
        "9" * 30,
        "nan",
        "inf",
        "1e308",
        "1e-308",
        "x" * 200_000,
        '"',
        "\x00",
        "NV99999",
        "1-",
    ]
    cells[place] = pick.choice(new)
    if pick.random() < 0.2:
        cells *= pick.choice([0, 2, 50])
    return "".join(cells)
