"""Every verb in narrow and wide terminals, through a pipe, and in JSON."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import MPIEXEC, Ended, here, run, tiny
from rich.console import Console

from forked import forked
from steptime.cli import build_app
from steptime.report.terminal import print_run
from steptime.runs.record import run_record
from steptime.runs.run_folder import read_record

SAVED = Path(__file__).parent.parent / "topo" / "saved" / "pcie-2-sockets.txt"
SMALL = "gpt2-124M --ranks 4 --layers 2"
ON_8 = "simulate gpt2-124M --cluster pcie-switch-8 --ranks 2"
ON_DGX = "scale gpt2-124M --cluster dgx-h100 --ranks 2,8"
HERE = [
    "cluster list",
    "cluster show dgx-h100-pod",
    "verify all --ranks 2-4",
    "show ring,all_gather/bruck --ranks 8 --hosts 2",
    "show pipeline --stages 4 --microbatches 16",
    "topo",
    f"topo --file {SAVED} --explain",
    f"{ON_8} --strategy server,overlapped_sharded --out simulated",
    f"{ON_8} --strategy replicated --sensitivity --what-if bandwidth=2x --out there",
    "simulate --flows flows.csv --cluster laptop --out flowing",
    "proxy list",
    "proxy describe mixtral-8x7B",
    f"proxy {SMALL} --tensor 2 --pipeline 2 --dry-run",
    f"proxy {SMALL} --pipeline 2 --cluster dgx-a100 --out proxied",
    f"{ON_DGX} --strategies replicated,overlapped --out grid",
    "plan llama3-8B --cluster dgx-h100 --batch 64 --out planned",
    "plan mixtral-8x7B --cluster dgx-h100-pod --gpus 64,32 --cost 2.5/h --tokens 1T --out cost",
    "plan llama3-70B --cluster dgx-a100 --explain tensor=8,zero=3 --out explained",
    "data prepare flows.csv --tokenizer byte --out tokens",
    "report a",
    "report a b --out both.html",
    "export a --to perfetto",
    "export a --to paraver",
    "export a --to goal",
    "export a --to csv",
    "export c --to hugging_face",
    "generate c 'the ring' --tokens 20",
    "diff a b --strategy replicated",
    "history .",
    "submit train --dry-run",
    "learn",
]
"""What starts no ranks, in a folder with two runs of compare, a and b."""
SEARCH = ("plan", "scale")
"""Those of them that take long."""

ON_RANKS = [
    "bench all_reduce --ranks 2 -b 1K -e 32K -f 32 -n 2 --algorithms builtin,ring",
    "bench sendrecv --ranks 2 -b 1K -e 1K -n 2",
    "tune all_gather --ranks 2 -b 1K -e 64K -f 64 -n 2",
    "proxy gpt2-124M --ranks 2 --layers 2 --scale-bytes 1/4096 --compute nothing --steps 2",
]
"""What starts ranks, with torch and without."""

VERBS = [name for name in build_app() if not name.startswith("-")]


@dataclass(frozen=True)
class Live:
    """The folder where compare and train ran, each for a person and for a program."""

    folder: Path
    ended: dict[str, Ended]


@pytest.fixture(scope="module")
def live(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Live:
    folder = tmp_path_factory.mktemp("terminals")
    (folder / "flows.csv").write_text("src,dst,bytes,start_s\n0,1,1MB,0\n1,0,5kB,0.001\n")
    compare = ["compare", *tiny(text, ranks=2, steps=20, strategies="replicated,server")]
    train = ["train", *tiny(text, ranks=1, checkpoint_every=2)]
    ended = {}
    for words, names in ((compare, ("a", "b")), (train, ("c", "d"))):
        for name, asked in zip(names, ([], ["--json"]), strict=True):
            out = (*words, "--out", name, *asked)
            ended[name] = forked(*out, folder=folder, environ={"COLUMNS": "80"})
    return Live(folder, ended)


def check_lines(ended: Ended, columns: int) -> None:
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.strip()
    assert "\x1b" not in ended.out
    assert [line for line in ended.out.splitlines() if len(line) > columns] == []


def check_object(ended: Ended, verb: str) -> None:
    assert (ended.code, ended.json.get("verb")) == (0, verb)
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    "words",
    [pytest.param(one, marks=[pytest.mark.slow] if one.startswith(SEARCH) else []) for one in HERE],
)
def test_what_starts_no_ranks(words: str, live: Live) -> None:
    check_lines(here(*shlex.split(words), folder=live.folder, columns=80), 80)
    check_object(here(*shlex.split(words), "--json", folder=live.folder), words.split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("words", HERE)
def test_a_wide_terminal_holds_what_starts_no_ranks(words: str, live: Live) -> None:
    check_lines(here(*shlex.split(words), folder=live.folder, columns=160), 160)


@pytest.mark.parametrize("words", ON_RANKS)
def test_what_starts_ranks(words: str, tmp_path: Path) -> None:
    ended = forked(*shlex.split(words), folder=tmp_path, environ={"COLUMNS": "80"})
    check_lines(ended, 80)


@pytest.mark.slow
@pytest.mark.skipif(not MPIEXEC, reason="there is no mpiexec")
@pytest.mark.parametrize("words", ON_RANKS)
def test_what_starts_ranks_of_mpi(words: str, tmp_path: Path) -> None:
    words_of_mpi = [*shlex.split(words), "--backend", "mpi"]
    check_lines(run(*words_of_mpi, folder=tmp_path, environ={"COLUMNS": "160"}), 160)
    check_object(run(*words_of_mpi, "--json", "--quiet", folder=tmp_path), words.split()[0])


@pytest.mark.parametrize(
    ("person", "program", "verb"), [("a", "b", "compare"), ("c", "d", "train")]
)
def test_a_training(person: str, program: str, verb: str, live: Live) -> None:
    check_lines(live.ended[person], 80)
    check_object(live.ended[program], verb)
    wide = Console(width=160, highlight=False)
    with wide.capture() as table:
        print_run(wide, run_record(read_record(live.folder / person)))
    check_lines(Ended(0, table.get(), "", 0), 160)


def test_every_verb_is_tried() -> None:
    elsewhere = {"check", "compare", "emulate", "on", "record", "replay", "train"}
    assert {words.split()[0] for words in (*HERE, *ON_RANKS)} | elsewhere == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_wrong_is_an_object_too(verb: str, tmp_path: Path) -> None:
    ended = here(verb, "--nonsense", "--json", folder=tmp_path)
    assert ended.code == 2
    assert ended.json.keys() == {"error"}
    assert ended.err == f"steptime: {ended.json['error']}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    ["report none", "export none --to csv", "diff none none", "show none", "cluster show none"],
)
def test_what_is_not_there_is_an_object_too(words: str, tmp_path: Path) -> None:
    ended = here(*words.split(), "--json", folder=tmp_path)
    assert ended.code == 2
    assert ended.json.keys() == {"error"}
    assert "none" in ended.json["error"]
