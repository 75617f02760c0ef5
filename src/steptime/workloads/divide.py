"""Divisibility: refusing numbers in one sentence with the nearest valid choices."""

from collections.abc import Iterable

from steptime.errors import UsageError


def check_at_least_1(counts: Iterable[tuple[str, int]]) -> None:
    """Raise UsageError for the first of the named counts that is below 1."""
    for name, count in counts:
        if count < 1:
            raise UsageError(f"the number of {name} is {count}: it must be at least 1")


def check_divides(what: str, count: int, of: str, total: int, model: str) -> None:
    """Raise UsageError where ``count`` does not divide ``total``; it names the nearest that do."""
    if total % count:
        raise UsageError(
            f"{count} {what} do not divide the {total:,} {of} of {model}: the nearest that do are "
            f"{nearest(count, divisors(total))}"
        )


def divisors(total: int) -> list[int]:
    """The numbers that divide ``total``, in ascending order."""
    low = [n for n in range(1, int(total**0.5) + 1) if not total % n]
    return sorted({*low, *(total // n for n in low)})


def nearest(count: int, able: Iterable[int]) -> str:
    """Of the valid numbers, the next below and the next above ``count``, in words."""
    choices = sorted(able)
    below = [n for n in choices if n < count][-1:]
    above = [n for n in choices if n > count][:1]
    return " and ".join(f"{n}" for n in below + above)
