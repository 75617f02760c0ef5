"""The verb verify: shipped algorithms, a user's own, and whatever can be wrong with them."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import here, run

from steptime.collectives import all_algorithms

HEAD = """
import numpy as np
from steptime.collectives import algorithm, send, together
"""
RIGHT = (
    HEAD
    + '''
@algorithm("all_reduce", chunks=lambda: 1)
def to_all(ranks):
    """Everybody sends its vector to everybody."""
    rank = np.arange(ranks)
    yield together(*(send(rank, (rank + far) % ranks, 0, reduce=True) for far in range(1, ranks)))
'''
)
WRONG = (
    HEAD
    + """
@algorithm("all_reduce")
def short_ring(ranks):
    rank = np.arange(ranks)
    for step in range(1, ranks - 1):
        yield send(rank, (rank + 1) % ranks, (rank - step) % ranks, reduce=True)
    for step in range(ranks - 1):
        yield send(rank, (rank + 1) % ranks, (rank - step) % ranks)
"""
)


def own(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text)
    return "mine.py"


def test_every_shipped_algorithm_is_right(tmp_path: Path) -> None:
    ended = run("verify", "--ranks", "1-9,16", "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    answer = ended.json
    assert answer["verb"] == "verify"
    assert answer["ok"] is True
    shown = {(r["collective"], r["algorithm"]) for r in answer["results"]}
    assert shown == {(a.collective.name, a.name) for a in all_algorithms()}
    ring = [
        r for r in answer["results"] if (r["collective"], r["algorithm"]) == ("all_reduce", "ring")
    ]
    assert [r["ranks"] for r in ring] == [*range(1, 10), 16]
    last = ring[-1]
    assert last["rounds"] == 30
    assert last["bytes_sent_max"] == 30 << 20
    assert last["bytes_reduced_max"] == 15 << 20
    assert last["same_bits"] is True
    assert last["findings"] == []
    assert not list(tmp_path.iterdir())


def test_the_table_fits_a_terminal_and_says_what_was_proved(tmp_path: Path) -> None:
    ended = run("verify", "--ranks", "1-5", folder=tmp_path, environ={"COLUMNS": "80"})
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "…" not in ended.out
    assert re.search(r"^all_reduce +ring +1–5 +8 +1\.60 +0\.80 +yes$", ended.out, re.M)
    assert re.search(r"^all_gather +recursive_doubling +1–2, 4 ", ended.out, re.M)
    assert re.search(r"All \d+ algorithms are right", ended.out)


@pytest.mark.parametrize(
    ("words", "algorithms"),
    [
        (["all_reduce/ring"], {("all_reduce", "ring")}),
        (["ring", "--collective", "all_gather"], {("all_gather", "ring")}),
        (["barrier"], {("barrier", "dissemination")}),
        (["ring"], {(kind, "ring") for kind in ("all_reduce", "reduce_scatter", "all_gather")}),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_name_means_one_algorithm_or_several(
    words: list[str], algorithms: set[tuple[str, str]], tmp_path: Path
) -> None:
    results = here("verify", *words, "--ranks", "4", "--json", folder=tmp_path).json["results"]
    assert {(r["collective"], r["algorithm"]) for r in results} == algorithms


def test_a_file_of_ones_own_is_proved(tmp_path: Path) -> None:
    ended = here("verify", own(tmp_path, RIGHT), folder=tmp_path)
    assert ended.code == 0, ended.err
    assert re.search(r"^all_reduce +to_all +1–33 +1 ", ended.out, re.M)
    assert "The algorithm is right, whatever the timing of the messages: 33 proofs." in ended.out


def test_a_wrong_algorithm_is_told_by_rank_chunk_and_round(tmp_path: Path) -> None:
    name = own(tmp_path, WRONG)
    ended = here("verify", name, "--ranks", "2-6", folder=tmp_path)
    assert ended.code == 1
    assert re.search(r"^all_reduce +short_ring +wrong 2–6 ", ended.out, re.M)
    assert "all_reduce short_ring is wrong for 2 ranks:" in ended.out
    result = here("verify", name, "--ranks", "3", "--json", folder=tmp_path).json["results"][0]
    assert result["ok"] is False
    untouched = {"rank": 0, "chunk": 0, "round": -1}
    assert result["findings"][0] == untouched | {"what": "lacks the contribution of ranks 1, 2"}
    assert {finding["round"] for finding in result["findings"]} == {-1, 1, 2}


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("def broken(:\n", 2, r"mine\.py, line 1: invalid syntax"),
        ("import nowhere\n", 2, r"cannot import mine\.py: line 1: ModuleNotFoundError: No module"),
        ("x = 1\n", 2, r"mine\.py defines no algorithm: put @algorithm"),
        (
            HEAD + "@algorithm('all_reduce')\ndef bad(ranks):\n    yield send(0, [][ranks], 0)\n",
            1,
            r"the all_reduce 'bad' of mine\.py fails for 4 ranks: line 6: IndexError: list index",
        ),
        (
            HEAD + "@algorithm('all_reduce')\ndef bad(ranks):\n    while True:\n"
            "        yield send(0, 1, 0, reduce=True)\n",
            1,
            r"RuntimeError: it has not ended after 512 rounds, 64 for each rank and chunk",
        ),
        (
            HEAD + "@algorithm('all_reduce')\ndef bad(ranks):\n    return None\n",
            1,
            r"returns instead of yielding rounds",
        ),
        (
            HEAD + "@algorithm('all_reduce')\ndef bad(ranks):\n    yield [(0, 1)]\n",
            1,
            r"round 0 is no round: yield send",
        ),
        (
            HEAD + "@algorithm('all_gather', chunks=lambda: 1)\ndef bad(ranks):\n    yield\n",
            1,
            r"chunks is 1: all_gather has one chunk for each rank",
        ),
        (
            HEAD + "@algorithm('all_reduce')\ndef bad(speed):\n    yield\n",
            2,
            r"the algorithm bad asks for 'speed': its parameters may be ranks, root",
        ),
        (
            HEAD + "@algorithm('all_sum')\ndef bad(ranks):\n    yield\n",
            2,
            "no collective 'all_sum'",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    text: str, code: int, sentence: str, tmp_path: Path
) -> None:
    ended = here("verify", own(tmp_path, text), "--ranks", "4", folder=tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("steptime: ")
    assert ended.err.count("\n") == 1
    assert re.search(sentence, ended.err)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rings"], r"there is no algorithm or collective 'rings': did you mean ring\?"),
        (["all_reduce/rings"], r"there is no all_reduce 'rings': did you mean ring\?"),
        (
            ["bruck", "--collective", "reduce"],
            r"there is no reduce 'bruck': choose one of binomial",
        ),
        (["ring", "--collective", "sum"], r"there is no collective 'sum'"),
        (["nowhere.py"], r"there is no file nowhere\.py"),
        (["ring", "--ranks", "0"], r"--ranks is '0': there must be at least one rank"),
        (["ring", "--ranks", "many"], r"--ranks is 'many': write numbers such as 8"),
        (["ring", "--hosts", "0"], r"--hosts is 0: it must be at least 1"),
        (["all_gather/recursive_doubling", "--ranks", "3"], r"serves none of the ranks 3"),
        (["ring", "--bytes", "big"], r"'big' is not a size"),
        (["all_reduce/ring", "--ranks", "3000"], r"verify fewer ranks"),
        (["all_reduce/ring", "--ranks", "4", "--export", "x.txt"], r"ends in \.xml"),
        (["ring", "--ranks", "4", "--export", "x.xml"], r"writes one schedule, not 3: name one"),
        (["barrier", "--ranks", "4", "--export", "x.xml"], r"MSCCL has no barrier"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bad_usage_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    ended = here("verify", *words, "--json", folder=tmp_path)
    assert ended.code == 2
    assert re.search(sentence, ended.json["error"])
    assert not list(tmp_path.iterdir())


def test_a_schedule_is_exported_when_it_is_right(tmp_path: Path) -> None:
    one = ["all_reduce/circulant", "--ranks", "6"]
    assert here("verify", *one, "--export", "a.xml", folder=tmp_path).code == 0
    root = ElementTree.parse(tmp_path / "a.xml").getroot()  # noqa: S314 - it is our own
    assert (root.attrib["coll"], root.attrib["ngpus"]) == ("allreduce", "6")
    done = here("verify", *one, "--export", "a.goal", "--bytes", "6kB", folder=tmp_path)
    assert done.code == 0
    assert (
        (tmp_path / "a.goal").read_text().startswith("num_ranks 6\n\nrank 0 {\nl1: send 3000b to ")
    )
    name = own(tmp_path, WRONG)
    assert here("verify", name, "--ranks", "3", "--export", "b.xml", folder=tmp_path).code == 1
    assert not (tmp_path / "b.xml").exists()


def test_it_neither_waits_for_torch_nor_draws_a_page(tmp_path: Path) -> None:
    code = (
        "import sys; from steptime.cli import main; sys.argv = ['steptime', *sys.argv[1:]]; main();"
        "print([n for n in ('torch', 'plotly', 'jinja2') if n in sys.modules], file=sys.stderr)"
    )
    for words in (["verify", "ring", "--ranks", "4"], ["show", "ring"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.stderr == "[]\n"
