"""The verb show with a pipeline: in a terminal, as JSON, and as a picture."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command import here

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
FOUR = ("show", "pipeline", "--stages", "4", "--microbatches", "8")


def test_1f1b_fits_a_terminal_and_names_its_bubble(tmp_path: Path) -> None:
    ended = here(*FOUR, "--schedule", "1f1b", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [
        line.removeprefix(f"stage {n} ") for n in range(4) for line in lines if f"e {n} " in line
    ]
    assert len(rows) == 4
    assert {len(row) for row in rows} == {2 * 33}
    assert rows[0].startswith("F0F1F2F3" + "·" * 12 + "B0──F4B1──F5")
    assert rows[3].startswith("······F0B0──F1B1──F2")
    assert all(row.count("··") == 9 for row in rows)
    words = " ".join(ended.out.split())
    assert "Bubble: 27.3 % of the step, 37.5 % of the work (computed" in words
    assert "stage by stage: 4, 3, 2, 1 micro-batches." in words


@pytest.mark.parametrize(
    "words",
    [
        ["--interleave", "2"],
        ["--schedule", "zb-h1"],
        ["--schedule", "gpipe", "--microbatches", "200", "--stages", "40"],
        ["--interleave", "30", "--microbatches", "20"],
        ["--stages", "1", "--microbatches", "1"],
    ],
    ids=" ".join,
)
def test_others_are_folded_and_cut(words: list[str], tmp_path: Path) -> None:
    ended = here("show", "pipeline", *words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 90


def test_json_holds_every_pass(tmp_path: Path) -> None:
    words = ["show", "pipeline", "--schedule", "interleaved", "--stages", "2"]
    shown = here(*words, "--microbatches", "4", "--json", folder=tmp_path).json["pipeline"]
    assert (shown["source"], shown["schedule"], shown["interleave"]) == (
        "computed",
        "interleaved",
        2,
    )
    assert shown["bubble_ratio"] == pytest.approx(1 / 8)
    assert len(shown["passes"]) == 2 * 4 * 2 * 2
    assert shown["passes"][0] == {
        "stage": 0,
        "kind": "forward",
        "micro_batch": 0,
        "chunk": 0,
        "start": 0,
        "end": 1,
    }
    assert max(one["end"] for one in shown["passes"]) == shown["slots"] == 27


def test_the_picture_has_a_box_for_each_pass(tmp_path: Path) -> None:
    ended = here(*FOUR, "--schedule", "zb-h1", "--svg", "a.svg", folder=tmp_path)
    assert ended.out.endswith("picture: a.svg\n")
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text())  # noqa: S314
    boxes = [box for box in root.iter() if box.tag.endswith("rect")]
    paper, rows, key = 1, 4, 4
    assert len(boxes) == paper + rows + 4 * 8 * 3 + key
    width = float(root.attrib["width"])
    assert all(float(box.get("x", "0")) + float(box.attrib["width"]) <= width for box in boxes)


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    blocks = re.findall(r"^```console\n\$ steptime (.*)\n((?:.*\n)*?)```", PAGE.read_text(), re.M)
    assert len(blocks) >= 3
    for command, shown in blocks:
        ended = here(*command.split(), folder=tmp_path)
        assert (ended.code, ended.err) == (0, "")
        printed = [line.rstrip() for line in ended.out.splitlines()]
        assert printed == shown.splitlines(), command


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pipeline", "--schedule", "gpip"], r"no pipeline schedule 'gpip': did you mean gpipe"),
        (["pipeline", "--stages", "0"], r"number of stages is 0: it must be at least 1"),
        (["pipeline", "--microbatches", "-2"], r"number of micro-batches is -2"),
        (["pipeline", "--microbatches", "x"], r"--microbatches"),
        (["pipeline", "--interleave", "2", "--microbatches", "6"], r"nearest are 4 and 8"),
        (["pipeline", "--stages", "1000", "--microbatches", "1000"], r"1,000,000 forwards and at"),
        (["pipeline", "--ranks", "4", "--bytes", "1MiB"], r"has no --ranks and no --bytes"),
        (["ring", "--stages", "4"], r"ring has no --stages: drop it, or say show pipeline"),
        (["pipeline", "--svg", "no/x.svg"], r"cannot write no/x\.svg"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_cannot_be_shown_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path
) -> None:
    ended = here("show", *words, folder=tmp_path)
    assert ended.code in (1, 2)
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert re.search(sentence, ended.err)
    assert not list(tmp_path.iterdir())
