"""Reading measured rows: what a value means, and what is refused by line."""

import pytest

from plan_rows import PLAIN, row_with, write_rows
from steptime.errors import UsageError
from steptime.plan.rows import COLUMNS, read_rows, shipped_rows


def test_values_are_numbers_texts_or_unstated(tmp_path):
    row = row_with(tmp_path, params="1340000000.0", vpp="", mem_gib="0", note="quoted, with commas")
    assert (row.params, row.vpp, row.mem_gib, row.note) == (1.34e9, None, 0, "quoted, with commas")
    assert (row.hidden, row.step_s, row.line, row.crashed) == (2048, 8.0, 2, False)


def test_a_question_mark_says_that_a_value_is_assumed(tmp_path):
    row = row_with(tmp_path, vocab="51200?", recompute="full?")
    assert (row.vocab, row.recompute) == (51200, "full")
    assert row.assumed == ("vocab", "recompute")


@pytest.mark.parametrize(
    "change",
    [
        {"step_s": "", "note": "crashed or out of memory"},
        {"step_s": "", "target": "crashed or OOM"},
        {"step_s": "", "mem_gib": "OOM"},
    ],
)
def test_rows_without_a_time_may_have_crashed(tmp_path, change):
    row = row_with(tmp_path, **change)
    assert row.crashed
    assert row.step_s is None
    assert row.mem_gib is None


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\n"))
    assert read_rows(path)[0].source == "somebody's table"


def test_columns_of_ones_own_are_ignored(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {"mine": "x"}, columns=(*COLUMNS, "mine"))
    assert len(read_rows(path)) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"step_s": "fast"}, "line 3 of .*step_s is 'fast': it must be a number"),
        ({"step_s": "-1"}, "line 3 of .*step_s is -1: it must be above 0"),
        ({"step_s": "0"}, "line 3 of .*step_s is 0: it must be above 0"),
        ({"step_s": "nan"}, "line 3 of .*step_s is 'nan'"),
        ({"mfu_pct": "139"}, "line 3 of .*mfu_pct is 139: it is in percent"),
        ({"mem_gib": "-3"}, "line 3 of .*mem_gib is -3"),
        ({"mem_gib": "70GB"}, "line 3 of .*mem_gib is '70GB': it must be a number"),
        ({"layers": "16.5"}, "line 3 of .*layers is 16.5: it must be a whole number"),
        ({"n_gpus": "0"}, "line 3 of .*n_gpus is 0"),
        (
            {"step_s": "8000", "tokens_per_s_gpu": "16384"},
            "line 3 of .*step_s 8000 with 16384 tokens_per_s_gpu makes .* step_s is in seconds",
        ),
    ],
)
def test_what_cannot_be_is_named_by_line(tmp_path, change, says):
    path = write_rows(tmp_path / "rows.csv", {}, change)
    with pytest.raises(UsageError, match=says):
        read_rows(path)


def test_a_rate_that_agrees_with_the_time_is_taken(tmp_path):
    assert row_with(tmp_path, tokens_per_s_gpu="16384").tokens_per_s_gpu == 16384


def test_a_missing_column_is_named(tmp_path):
    columns = tuple(one for one in COLUMNS if one not in ("tp", "step_s"))
    path = write_rows(tmp_path / "rows.csv", {}, columns=columns)
    with pytest.raises(UsageError, match=r"line 1 of .* lacks the columns tp, step_s"):
        read_rows(path)


def test_a_row_twice_is_named_by_both_lines(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {}, {"tp": "1", "dp": "8"}, {})
    with pytest.raises(UsageError, match=r"line 4 of .* is line 2 again"):
        read_rows(path)


def test_a_configuration_may_be_measured_and_may_crash_again(tmp_path):
    crashed = {"step_s": "", "note": "crashed or out of memory"}
    path = write_rows(tmp_path / "rows.csv", {}, {"step_s": "8.1"}, crashed, crashed)
    assert [row.step_s for row in read_rows(path)] == [8.0, 8.1, None, None]


@pytest.mark.parametrize("text", ["", ",".join(COLUMNS) + "\n"])
def test_a_file_without_rows_is_refused(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"lacks the columns|has no rows"):
        read_rows(path)


def test_a_line_of_another_length_is_named(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {})
    path.write_text(path.read_text() + "one,two\n")
    with pytest.raises(UsageError, match=r"line 3 of .* has 2 values for 33 columns"):
        read_rows(path)


def test_what_is_no_table_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UsageError, match="cannot read"):
        read_rows(path)
    with pytest.raises(UsageError, match="Is a directory"):
        read_rows(tmp_path)


def test_the_shipped_rows_are_those_of_their_readme():
    rows = shipped_rows()
    assert len(rows) == 3069
    assert sum(row.step_s is not None for row in rows) == 2585
    assert sum(row.crashed for row in rows) == 480
    assert all(row.source and row.gpu and row.n_gpus for row in rows)


def test_seconds_follow_from_what_was_printed():
    """By hand: 2 rows of 8,192 tokens a GPU at 5,762 tokens a second."""
    (row,) = [row for row in shipped_rows() if row.note.startswith("tt-8B-8-FSDP;")]
    assert row.step_s == pytest.approx(2 * 8192 / 5762, rel=1e-4)


def test_the_plain_row_has_only_columns_of_the_file():
    assert PLAIN.keys() <= set(COLUMNS)
