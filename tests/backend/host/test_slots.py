"""How large a slot is, by the cache of the processor."""

import os

import pytest

from steptime.backend.host import group


@pytest.mark.parametrize(
    ("cache", "slot"),
    [
        (0, 64 << 10),
        (-1, 64 << 10),
        (1 << 20, 256 << 10),
        ((1 << 20) + 5, 256 << 10),
        (1 << 30, 1 << 20),
    ],
)
def test_a_slot_is_a_quarter_of_the_cache_and_never_nothing(
    cache: int, slot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Virtual machines say 0 where they do not know, and some systems -1."""
    monkeypatch.setattr(os, "sysconf", lambda _number: cache)
    assert group._slot_bytes() == slot


def test_a_system_that_does_not_know_such_a_figure_has_the_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(_number: int) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert group._slot_bytes() == 64 << 10
