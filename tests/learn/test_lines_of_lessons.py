"""Lines of lessons: words that a reader's file holds, and runs that failed."""

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.learn.running import run_line


def test_a_word_is_what_the_reader_wrote_in_the_file(tmp_path):
    (tmp_path / "stages.txt").write_text("# how many?\n 1\n 2  # twelve\n")
    line = "steptime show pipeline --stages @stages.txt --microbatches 3"
    text, numbers = run_line(line, tmp_path, captured=True)
    assert numbers["pipeline"]["stages"] == 12
    assert "12 stages" in text


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"none\.txt: No such file"):
        run_line("steptime show pipeline --stages @none.txt", tmp_path, captured=True)


def test_a_command_that_fails_is_not_judged_by_the_run_before_it(tmp_path):
    line = "steptime plan gpt2-124M --cluster dgx-h100 --explain tensor={} --out run"
    _, numbers = run_line(line.format(2), tmp_path, captured=True)
    assert numbers["best"][0]["axes"]["tensor"] == 2
    with pytest.raises(SteptimeError, match="failed with exit code 2"):
        run_line(line.format(7), tmp_path, captured=True)
