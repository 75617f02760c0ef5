"""Verification: an algorithm proved for many numbers of ranks, a user's own as safely as ours."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from steptime.collectives.algorithm import DEFAULT_BLOCKS, Algorithm, schedule
from steptime.collectives.price import price
from steptime.collectives.proof import Finding, prove
from steptime.collectives.schedule import TRANSFER, Round, Schedule
from steptime.discovery import described
from steptime.errors import SteptimeError

ROUNDS_PER_CHUNK = 64
"""An algorithm may take this many rounds for each rank and chunk before it counts as endless."""


MOST_PROVED = 64
"""So many ranks at most are proved before a user's own algorithm is used, which takes a second."""


@dataclass(frozen=True)
class Verdict:
    """What the proofs of one algorithm for one number of ranks showed.

    ``roots`` are those proved, and ``root`` is that of the findings, the last proved if there are
    none. Bytes are the most of any rank, for a vector of ``nbytes``; of a wrong algorithm none.
    """

    collective: str
    algorithm: str
    ranks: int
    roots: tuple[int, ...]
    root: int
    nbytes: int
    rounds: int
    same_bits: bool
    bytes_sent_max: int
    bytes_reduced_max: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether the algorithm is right for so many ranks."""
        return not self.findings


def verify(
    algorithm: Algorithm, ranks: int, nbytes: int, hosts: tuple[int, ...] | None = None
) -> Verdict:
    """Prove ``algorithm`` for ``ranks`` ranks, and price it for a vector of ``nbytes`` bytes.

    A rooted collective is proved for the first, the middle and the last rank as root, up to the
    first that is wrong. A barrier has no vector, so its bytes are none.

    Raises UsageError when the algorithm does not serve so many ranks, and SteptimeError when its
    function fails, yields what is no round, or does not end.
    """
    kind = algorithm.collective
    nbytes = 0 if kind.name == "barrier" else nbytes
    roots = sorted({0, ranks // 2, ranks - 1}) if kind.rooted else [0]
    for root in roots:
        checked = safe_schedule(algorithm, ranks, root=root, hosts=hosts)
        proof = prove(checked)
        if not proof.ok:
            break
    cost = price(checked, nbytes) if proof.ok else None
    return Verdict(
        collective=kind.name,
        algorithm=algorithm.name,
        ranks=ranks,
        roots=tuple(roots),
        root=root,
        nbytes=nbytes,
        rounds=proof.rounds,
        same_bits=proof.same_bits,
        bytes_sent_max=int(cost.bytes_sent.max()) if cost else 0,
        bytes_reduced_max=int(cost.bytes_reduced.max()) if cost else 0,
        findings=proof.findings,
    )


def check_right(algorithm: Algorithm, ranks: int, *, root: int = 0) -> None:
    """Raise SteptimeError where an algorithm that nobody has checked is wrong for so many ranks.

    Of more than MOST_PROVED ranks it is proved for the most of these that it serves.
    """
    able = (count for count in range(min(ranks, MOST_PROVED), 0, -1) if algorithm.serves(count))
    proved = next(able, ranks)
    proof = prove(safe_schedule(algorithm, proved, root=min(root, proved - 1)))
    if not proof.ok:
        first = proof.findings[0]
        raise SteptimeError(
            f"the {algorithm.collective.name} {algorithm.name!r} is wrong for {proved} ranks: "
            f"{first}; see steptime show FILE --ranks {proved}"
        )


def safe_schedule(
    algorithm: Algorithm,
    ranks: int,
    *,
    root: int = 0,
    hosts: tuple[int, ...] | None = None,
    blocks: int = DEFAULT_BLOCKS,
) -> Schedule:
    """The schedule of an algorithm that nobody has checked yet.

    Raises UsageError when the algorithm does not serve so many ranks. Whatever fails in its own
    functions, now or while its rounds are generated, is a SteptimeError that names the algorithm,
    the number of ranks and the line; so is a function that does not end.
    """
    with _blamed(algorithm, ranks):
        made = schedule(algorithm, ranks, root=root, hosts=hosts, blocks=blocks)
        _check_memory(made)
    return replace(made, generate=lambda: _guarded(algorithm, made))


def _check_memory(made: Schedule) -> None:
    kind = made.collective
    for what, slots, least in (("chunks", made.chunks, 1), ("scratch", made.scratch, 0)):
        if not isinstance(slots, int) or slots < least:
            raise ValueError(f"{what} is {slots!r}: it must be a whole number of at least {least}")
    if kind.per_rank and made.chunks != made.ranks:
        raise ValueError(f"chunks is {made.chunks}: {kind.name} has one chunk for each rank")


def _guarded(algorithm: Algorithm, made: Schedule) -> Iterator[Round]:
    limit = ROUNDS_PER_CHUNK * (made.ranks + made.chunks)
    with _blamed(algorithm, made.ranks):
        rounds = made.generate()
        if not isinstance(rounds, Iterator):
            raise TypeError("its function returns instead of yielding rounds: use yield send(...)")
        for number, transfers in enumerate(rounds):
            if number == limit:
                raise RuntimeError(
                    f"it has not ended after {limit:,} rounds, {ROUNDS_PER_CHUNK} for each rank "
                    "and chunk"
                )
            if not isinstance(transfers, np.ndarray) or transfers.dtype != TRANSFER:
                raise TypeError(f"round {number} is no round: yield send(...) or together(...)")
            yield transfers


@contextmanager
def _blamed(algorithm: Algorithm, ranks: int) -> Iterator[None]:
    try:
        yield
    except SteptimeError:
        raise
    except Exception as error:
        path = Path(inspect.getsourcefile(algorithm.generate) or "")
        raise SteptimeError(
            f"the {algorithm.collective.name} {algorithm.name!r} of {path.name} fails for {ranks} "
            f"{'rank' if ranks == 1 else 'ranks'}: {described(error, path)}"
        ) from None
