"""``steptime.verify``: collective algorithms proved, the shipped ones or one's own."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.api.arguments import bytes_of, hosts_of, ranks_of
from steptime.api.cells import Track, frame_of_rows, html_of, text_of, untracked
from steptime.collectives.algorithm import Algorithm
from steptime.collectives.lookup import find_algorithms
from steptime.collectives.verification import Verdict
from steptime.collectives.verification import verify as prove
from steptime.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, repr=False)
class Verification:
    """What the proofs showed: a verdict for each algorithm and number of ranks."""

    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether every algorithm is right for every number of ranks."""
        return all(verdict.ok for verdict in self.verdicts)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each verdict: rounds, bytes, whether it is right, and the findings if not."""
        return [asdict(verdict) | {"ok": verdict.ok} for verdict in self.verdicts]

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def print(self, console: "Console") -> None:
        """Print a table with a line for each algorithm, and the findings below it."""
        from steptime.report.collective.verdicts import print_verdicts

        print_verdicts(console, self.verdicts)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def verify(
    algorithm: str | Path | Algorithm = "all",
    *,
    collective: str | None = None,
    ranks: int | str | Iterable[int] = "1-33",
    nbytes: int | str | None = None,
    hosts: int | None = None,
    track: Track = untracked,
) -> Verification:
    """Prove that collective algorithms are right for every one of some numbers of ranks.

    ``algorithm``: a name (ring, all_reduce/ring), a collective, a file with algorithms of your own,
    a function that ``@algorithm`` stands above, or all that are shipped; of ``collective`` alone if
    that is given. ``nbytes``: the vector whose bytes are told, by default 1 MiB for each rank;
    ``hosts`` that share the ranks in order, by default two. ``track`` may show progress, as tqdm.

    Raises UsageError where there is no such algorithm or it serves none of the ranks, and
    SteptimeError where a function of yours fails or does not end.

    >>> st.verify("all_reduce/ring", ranks=[2, 3, 8]).ok
    True
    """
    if isinstance(algorithm, Algorithm):
        found = [algorithm]
    else:
        found = find_algorithms(str(algorithm), collective)
    counts = ranks_of(ranks)
    jobs = [(one, count) for one in found for count in counts if one.serves(count)]
    if not jobs:
        name = algorithm.name if isinstance(algorithm, Algorithm) else algorithm
        raise UsageError(f"{name} serves none of the ranks {ranks}: try --ranks 1-33")
    return Verification(
        tuple(
            prove(one, count, bytes_of(count, nbytes), hosts_of(count, hosts))
            for one, count in track(jobs, "proofs")
        )
    )
