"""What is the same for many ranks is said once, and bytes pass through a page unharmed."""

from report.packed import unpacked_bytes
from steptime.report.alike import alike, ranks_text
from steptime.report.packed import packed


def test_what_is_alike_stands_in_one_group_where_its_first_one_stood() -> None:
    assert alike([3, 14, 5, 24], lambda number: number % 10) == [[3], [14, 24], [5]]


def test_ranks_are_told_in_spans_and_of_many_spans_the_first() -> None:
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([9, 0, 1, 2, 8]) == "ranks 0–2, 8–9"
    assert ranks_text(list(range(0, 32, 2))) == "16 ranks: 0, 2, 4 …"


def test_packed_bytes_come_back_and_hold_nothing_that_ends_a_script() -> None:
    for size in range(1, 300):
        content = bytes(37 * size * at % 256 for at in range(size))
        text = packed(content)
        assert unpacked_bytes(text) == content
        assert not set("\0\r<") & set(text)
        assert text.encode().decode() == text
    assert packed(bytes(7)) == 8 * chr(256)
