"""Commands with nasty arguments, made of the verbs' own signatures."""

import random
import time
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from fuzz_files import Case

from steptime.cli import build_app, verbs

# No path leads out of the case's folder: what runs here may write wherever it may.
NASTY = [
    *(
        "",
        " ",
        "-",
        "--",
        "0",
        "-1",
        "1e999",
        "-inf",
        "nan",
        "1e308",
        "9" * 21,
        "9" * 5000,
        "x" * 9999,
    ),
    *("٣", "\x1b[31m", "a\nb", "'; ls", "nowhere", "None", "é", "."),
    *(
        "1/0",
        "1e-999",
        "0x10",
        "1_000",
        "+1",
        "1,,2",
        ",",
        ";",
        "=",
        "a=b",
        "1-",
        "-1-2",
        "5:",
        "[]",
    ),
    *("%s", "{}", "*", "~", "\udcff", "1e999us", "1e999GB/s", "1e308", "1e-300GB/s", "999999PB"),
]
NUMBERS = [
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "16",
    "100",
    "1000",
    "65536",
    str(1 << 20),
    str(1 << 40),
]
TEXTS = [
    *("ring", "all_reduce", "all_reduce/ring", "all_reduce=ring", "builtin", "all", "sharded"),
    *(
        "gpt2-124M",
        "gpt2-nano",
        "resnet50",
        "llama3-8B",
        "dlrm",
        "cosmoflow",
        "gpt3-13B",
        "4,8",
        "1-9",
    ),
    *("dgx-h100", "laptop", "h100-16384", "office-10gbe", "1f1b", "interleaved", "zb-h1", "gpipe"),
    *(
        "5us",
        "1ms",
        "10GB/s",
        "10Gb/s",
        "312TFLOP/s",
        "64MiB",
        "4096",
        "25MiB",
        "1B",
        "1/16",
        "0.5",
    ),
    *(
        "bandwidth=2x",
        "latency=0",
        "compute=0.5x,latency=2x",
        "1x1",
        "2x1:overlapped",
        "step_time_s",
    ),
    *(
        "broadcast",
        "sendrecv",
        "barrier",
        "float16",
        "avg",
        "pipeline",
        "describe",
        "list",
        "perfetto",
    ),
]
FILES = [
    *(
        "sim",
        "sim2",
        ".",
        "sim/run.json",
        "sim/trace.json.gz",
        "cluster.toml",
        "model.toml",
        "chakra",
    ),
    *(
        "config.json",
        "flows.csv",
        "times.csv",
        "ring.xml",
        "topo.xml",
        "topo.txt",
        "new",
        "new/a.svg",
    ),
    *("tokens.bin", "weights.bin", "text.txt", "new.html", "new.goal", "new.xml", "new.csv"),
]
STARTS: dict[str, list[list[str]]] = {
    "simulate": [["gpt2-nano", "--cluster", "dgx-h100", "--ranks", "2"], ["--flows", "flows.csv"]],
    "proxy": [
        ["gpt2-nano", "--dry-run"],
        ["gpt2-nano", "--cluster", "laptop"],
        ["describe", "dlrm"],
    ],
    "show": [["ring"], ["pipeline"], ["all_reduce", "--chart", "new.html"]],
    "verify": [["ring", "--ranks", "2-5"], ["ring.xml"]],
    "cluster": [["list"], ["show", "laptop"]],
    "report": [["sim"], ["sim", "sim2"]],
    "diff": [["sim", "sim2"]],
    "history": [["."]],
    "export": [["sim", "--to", "perfetto"], ["sim", "--to", "goal"], ["sim", "--to", "csv"]],
    "scale": [["--cluster", "dgx-h100", "gpt2-nano", "--ranks", "1,2"]],
    "plan": [
        ["gpt2-124M", "--cluster", "dgx-h100"],
        ["llama3-8B", "--cluster", "dgx-h100", "--explain", "tensor=2"],
        ["times.csv", "--validate"],
    ],
    "topo": [[], ["--file", "topo.xml"]],
    "data": [["prepare", "text.txt", "--out", "prepared"], ["prepare"]],
    "generate": [["nowhere", "Once"], ["text.txt"]],
    "submit": [["bench", "--dry-run"], ["--dry-run", "--", "train", "--steps", "2"]],
    "learn": [["2"], ["9", "--notebook", "new/a.ipynb"], []],
}
TRAINED = [*("--layers", "1", "--heads", "2", "--hidden", "16", "--tokens", "16", "--batch", "4")]
TRAINED += ["--data", "text.txt", "--steps", "1"]
LIVE = {
    "train": [*TRAINED, "--val-batches", "1"],
    "compare": [*TRAINED, "--warmup", "0", "--strategies", "replicated"],
    "bench": ["--iters", "1", "--maxbytes", "64"],
    "tune": ["--iters", "1", "--maxbytes", "64", "--algorithms", "ring"],
}
"""Verbs that start ranks, with what keeps them short; each runs on one rank."""

ENDLESS = {"--steps", "--iters", "--warmup", "--warmup-iters", "--check", "--batch", "--accumulate"}
ENDLESS |= {
    "--ranks",
    "--pairs",
    "--live",
    "--measure",
    "--against",
    "--strategies",
    "--val-batches",
}
ENDLESS |= {
    "--layers",
    "--hidden",
    "--ffn",
    "--experts",
    "--tokens",
    "--backend",
    "--threads",
    "--maxbytes",
    "--minbytes",
}
ENDLESS |= {"--stepbytes", "--stepfactor", "--algorithms", "--compile", "--model", "--timeout"}
ENDLESS |= {"--answers"}
"""Options by which a live run could take long: these get a nasty value, or none."""


@cache
def options_of(verb: str) -> list[tuple[tuple[str, ...], Any]]:
    """The options of a verb, with their types, as its signature has them."""
    if verb == "cluster":
        return [(("--json",), bool), (("--svg",), Path), (("--quiet",), bool)]
    app = build_app()[verb]
    every = (app["prepare"] if verb == "data" else app).assemble_argument_collection()
    named = [one for one in every if one.names and one.names[0].startswith("-")]
    return [(tuple(n for n in one.names if not n.startswith("--no-")), one.hint) for one in named]


def argument_case(pick: random.Random, folder: Path) -> Case:
    """A verb with options that its signature has, and values that it hardly has."""
    verb = pick.choice([*verbs(), *STARTS])
    live = verb in LIVE and pick.random() < 0.1
    words = [verb, *pick.choice(STARTS.get(verb, [[]]))]
    if verb in LIVE:
        words += [*LIVE[verb], "--ranks", "1"]
    for _ in range(1 if live else pick.choice([0, 1, 1, 2, 2, 3, 5])):
        names, hint = pick.choice(options_of(verb) or [((), str)])  # a verb may have none
        name = pick.choice(names) if names else "--json"
        if hint is bool and name in ENDLESS:
            continue
        words = without(words, set(names))
        words += [name] if hint is bool else [name, value(pick, hint, name, verb)]
    if verb in LIVE and not live:
        words += [pick.choice(sorted(ENDLESS)), pick.choice(NASTY)]
    if pick.random() < 0.1:
        words.insert(pick.randrange(len(words) + 1), pick.choice([*NASTY, *TEXTS]))
    if pick.random() < 0.5 and "--json" not in words:
        words.append("--json")
    del folder
    return Case([clean(word) for word in words], "", time.time())


def without(words: list[str], names: set[str]) -> list[str]:
    """The words without an option and its value, as an option may be given once."""
    for place, word in enumerate(words):
        if word in names:
            return words[:place] + words[place + 2 :]
    return words


def value(pick: random.Random, hint: Any, name: str, verb: str) -> str:
    """A value of an option: nasty, or of its type, or of another's."""
    of_type = [*get_args(hint), hint]
    if verb in {*LIVE, "proxy", "topo", "diff", "scale"} and name in ENDLESS:
        return pick.choice(NASTY)
    choices = [word for one in of_type if get_origin(one) is Literal for word in get_args(one)]
    if choices and pick.random() < 0.7:
        return str(pick.choice(choices))
    if pick.random() < 0.25:
        return pick.choice([*NASTY, *NUMBERS, *TEXTS, *FILES])
    if int in of_type or float in of_type:
        return pick.choice(NUMBERS)
    return pick.choice(FILES if Path in of_type else [*TEXTS, *NUMBERS])


def clean(word: str) -> str:
    """A word as execve(2) could pass it on."""
    return word.replace("\0", "")
