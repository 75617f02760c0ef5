import pytest

from steptime.collectives.selection import Choice, Selection, blocks_for
from steptime.errors import UsageError

TEXT = "recursive_doubling:0-8KiB;ring:8KiB-1MiB;builtin:1MiB-max"


def test_a_selection_is_written_as_it_is_read():
    assert str(Selection.parse(TEXT, "all_reduce", 4)) == TEXT
    assert str(Selection.parse(" ring : 0 - 5 ; builtin:5B-max", "all_reduce", 3)) == (
        "ring:0-5B;builtin:5B-max"
    )


@pytest.mark.parametrize(
    ("nbytes", "name"),
    [
        (0, "recursive_doubling"),
        (8191, "recursive_doubling"),
        (8192, "ring"),
        ((1 << 20) - 1, "ring"),
        (1 << 20, "builtin"),
        (1 << 50, "builtin"),
    ],
)
def test_a_range_holds_its_first_size_and_not_its_end(nbytes, name):
    assert Selection.parse(TEXT, "all_reduce", 4).algorithm(nbytes) == name


def test_a_name_alone_is_for_all_sizes():
    assert Selection.parse("ring", "all_gather", 3).choices == (Choice("ring", 0, None),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ring:0-8KiB", "nothing of 8KiB and above"),
        ("ring:1-max", "begins at 1B and what is before it ends at 0"),
        ("ring:0-5;builtin:7-max", "begins at 7B and what is before it ends at 5B"),
        ("ring:0-7;builtin:5-max", "begins at 5B and what is before it ends at 7B"),
        ("ring:0-max;builtin:9-max", "ends at max"),
        ("ring:0-0;ring:0-max", "is empty"),
        ("ring:0", "write NAME:FROM-TO"),
        ("ring:0-x", "'x' is not a size"),
        ("rong", "'rong' does not exist: choose one of builtin, "),
        ("", "does not exist"),
        ("ring:0-max;", "'' does not exist"),
    ],
)
def test_what_is_refused(text, says):
    with pytest.raises(UsageError) as refusal:
        Selection.parse(text, "all_reduce", 4)
    assert says in str(refusal.value)


def test_an_algorithm_that_cannot_serve_the_ranks_is_refused_with_those_that_can():
    text = "recursive_doubling:0-8KiB;ring:8KiB-max"
    assert Selection.parse(text, "all_gather", 4)
    with pytest.raises(UsageError, match=r"cannot serve 3 ranks: choose one of builtin, .*ring"):
        Selection.parse(text, "all_gather", 3)


def test_blocks_follow_the_size():
    assert [blocks_for(n) for n in (0, 4, 1 << 17, 1 << 30)] == [1, 1, 2, 64]
