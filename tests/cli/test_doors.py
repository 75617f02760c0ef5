"""The doors of the command line: how it ends whatever happens, and what it leaves."""

import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from command import STEPTIME, here, run

from steptime.cli.record import with_script_apart

FLOWS = "src,dst,bytes,start_s\n0,1,1000,0\n"


def test_a_disk_without_room_is_one_sentence(tmp_path: Path) -> None:
    for words in (["--help"], ["simulate", "--help"], ["cluster", "list", "--json"]):
        with Path("/dev/full").open("w") as full:
            ended = run(*words, folder=tmp_path, stdout=full)
        sentence = "steptime: cannot print to stdout: No space left on device\n"
        assert (ended.code, ended.err) == (1, sentence), words


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["cluster", "list"]])
def test_a_reader_that_leaves_ends_it_without_a_word(words: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = run(*words, folder=tmp_path, stdout=writer)
    os.close(writer)
    assert (ended.code, ended.err) == (141, "")


def test_what_cannot_be_told_on_stderr_still_has_its_exit_code(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [STEPTIME, "cluster", "show", "nowhere"], cwd=tmp_path, stderr=full, timeout=600
        )
    assert done.returncode == 2


@pytest.mark.parametrize("words", [["simulate"], ["train", "--ranks", "1", "--model"]])
def test_a_name_that_no_file_can_have_is_one_sentence(words: list[str], tmp_path: Path) -> None:
    ended = here(*words, "x" * 300, folder=tmp_path)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_more_digits_than_python_converts_are_too_many(tmp_path: Path) -> None:
    ended = here("verify", "ring", "--ranks", "9" * 5000, folder=tmp_path)
    assert ended.code == 2
    assert ended.err.count("\n") == 1


def test_an_empty_list_where_a_word_is_meant_is_one_sentence(tmp_path: Path) -> None:
    ended = here("report", "sim", "[]", folder=tmp_path)
    assert ended.code == 2
    assert "a list" in ended.err


def test_a_page_whose_name_is_no_text_is_written(tmp_path: Path) -> None:
    ended = here("history", ".", "--html", "\udcff", folder=tmp_path)
    assert ended.code in (0, 2)
    assert "mistake" not in ended.err


def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A steptime whose list of clusters has a mistake in it."""

    def fail() -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(import_module("steptime.cluster"), "preset_names", fail)
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def test_a_mistake_of_ours_is_one_sentence_that_names_the_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, monkeypatch)
    ended = here("cluster", "list", "--json", folder=tmp_path)
    (details,) = tmp_path.glob("steptime-mistake-*.txt")
    sentence = "a mistake in steptime, please report it: ZeroDivisionError (a mistake); see "
    assert (ended.code, ended.json) == (1, {"error": f"{sentence}{details}"})
    assert ended.err == f"steptime: {sentence}{details}\n"
    told = details.read_text()
    assert told.startswith("steptime cluster list --json\nTraceback")
    assert "ZeroDivisionError: a mistake" in told


def test_a_mistake_is_told_in_full_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, monkeypatch)
    monkeypatch.setenv("STEPTIME_DEBUG", "1")
    ended = here("cluster", "list", folder=tmp_path)
    assert ended.code == 1
    assert ended.err.startswith("Traceback")


@pytest.mark.parametrize("out", [[], ["--out", "a/b"]])
def test_a_run_that_fails_leaves_no_folder(
    out: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("steptime.api.flows.simulate_flows", fail)
    words = ("simulate", "--flows", "flows.csv", "--cluster", "dgx-h100", *out)
    ended = here(*words, folder=tmp_path)
    assert (ended.code, ended.err) == (
        1,
        "steptime: there is not enough memory for that: ask for less\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["flows.csv"]


@pytest.mark.slow
def test_a_folder_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "out").mkdir()
    words = ("simulate", "--flows", "flows.csv", "--cluster", "dgx-h100", "--out", "out")
    assert here(*words, folder=tmp_path).code == 0
    assert (tmp_path / "out" / "run.json").exists()


def test_what_json_has_not_is_not_printed_as_json(tmp_path: Path) -> None:
    for words in (
        ("show", "ring", "--alpha", "1e999us"),
        ("proxy", "gpt2-124M", "--dry-run", "--compute-time", "1e999us"),
        ("show", "ring", "--bytes", "1e308"),
        ("simulate", "gpt2-124M", "--cluster", "dgx-h100", "--ranks", "9" * 21),
        ("simulate", "gpt2-124M", "--cluster", "dgx-h100", "--layers", "9" * 21),
        ("simulate", "gpt2-124M", "--cluster", "dgx-h100", "--micro-batches", "9" * 21),
    ):
        ended = here(*words, "--json", folder=tmp_path)
        assert ended.code == 2, words
        assert list(ended.json) == ["error"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", [["report", "run"], ["diff", "run", "run"], ["history", "run"]])
def test_a_pipe_as_a_record_is_refused(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "run.json")
    ended = here(*words, folder=tmp_path)
    assert "is no record of a run: it is not even a file" in ended.err + ended.out


@pytest.mark.parametrize(
    "record",
    [
        '{"verb": "simulate", "strategies": {"a": {}}, "environment": []}',
        '{"verb": null, "strategies": null, "environment": null}',
        '{"verb": "compare", "world_size": -4, "strategies": {"a": {}}, "environment": {}}',
        '{"a":' * 5000,
    ],
)
def test_a_record_that_makes_no_sense_is_refused(record: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(record)
    ended = here("report", ".", folder=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith("steptime: ")
    assert ended.err.count("\n") == 1


def test_options_behind_a_script_are_its_own_and_those_behind_a_folder_are_ours(
    tmp_path: Path,
) -> None:
    words = ["check", "--ranks", "2", "train.py", "--json"]
    assert with_script_apart(words) == ["check", "--ranks", "2", "--", "train.py", "--json"]
    words = ["check", str(tmp_path), "--json"]
    assert with_script_apart(words) == words
