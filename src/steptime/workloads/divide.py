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


def lays_out(layers: int, stages: int, chunks: int = 1) -> bool:
    """Whether layers divide among stages of so many chunks, as ``layers_of_pieces`` cuts them.

    Every stage has a layer.
    """
    pieces = stages * chunks
    if not layers % pieces:
        return True
    return pieces > 2 and not (layers + 2) % pieces and (layers + 2) // stages > 1


def layers_of_pieces(layers: int, pieces: int) -> list[int]:
    """The layers of each piece of a pipeline: as many each, where they divide.

    Or, where they divide with the embedding and the head, each counted as a layer, the first and
    the last piece have one less: so Llama 3 405B was trained (arXiv 2407.21783, section 3.3.2).
    """
    if not layers % pieces:
        return [layers // pieces] * pieces
    each = (layers + 2) // pieces
    return [each - 1, *[each] * (pieces - 2), each - 1]


def check_pieces(stages: int, chunks: int, layers: int, model: str) -> None:
    """Raise UsageError where ``lays_out`` has no layers for so many stages, or chunks of each."""
    able = [n for n in range(1, layers + 3) if lays_out(layers, n)]
    if stages not in able:
        raise UsageError(
            f"{stages} pipeline stages do not divide the {layers:,} layers of {model}, nor these "
            f"with the embedding and the head: the nearest that do are {nearest(stages, able)}"
        )
    share = [n for n in range(1, layers + 3) if lays_out(layers, stages, n)]
    if chunks > 0 and chunks not in share:
        each = layers / stages
        raise UsageError(
            f"{chunks} chunks a stage do not divide the {each:g} layers of a stage of {model}: the "
            f"nearest that do are {nearest(chunks, share)}"
        )
