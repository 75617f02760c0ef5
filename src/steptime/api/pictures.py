"""``steptime.show``: collective algorithms as pictures that play."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from steptime import files
from steptime.api.arguments import bytes_of, hosts_of
from steptime.api.cells import frame_of, text_of
from steptime.cluster import Cluster, cluster_named
from steptime.collectives.algorithm import DEFAULT_BLOCKS, Algorithm
from steptime.collectives.lookup import find_algorithms, is_own
from steptime.collectives.proof import prove
from steptime.collectives.verification import safe_schedule
from steptime.errors import UsageError
from steptime.report.collective.panel import Link, Panel, panel
from steptime.units import parse_rate, parse_seconds

if TYPE_CHECKING:
    from rich.console import Console

ALPHA, BANDWIDTH = "5us", "10GB/s"
"""What a link takes and carries, unless something else is said."""

Named: TypeAlias = str | Path | Algorithm

_HEIGHT = 760
_HEIGHT_OF_SEVERAL = 900


@dataclass(frozen=True, repr=False)
class Picture:
    """Algorithms side by side, which play step by step in the cell of a notebook."""

    panels: tuple[Panel, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found to be wrong; of algorithms that are not steptime's own."""
        return not any(one.findings for one in self.panels)

    def page(self) -> str:
        """The page that plays them: HTML that needs no network."""
        from steptime.report.collective.page import player_page

        return player_page(self.panels)

    def save(self, path: str | Path) -> Path:
        """Write that page to a file."""
        files.write_atomic(Path(path), self.page().encode())
        return Path(path)

    def print(self, console: "Console") -> None:
        """Print each algorithm: its costs, its rounds in words, and a table of them."""
        from steptime.report.collective.rounds import print_exhibit

        for one in self.panels:
            print_exhibit(console, one)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return frame_of(self.page(), _HEIGHT if len(self.panels) == 1 else _HEIGHT_OF_SEVERAL)


def show(
    *algorithms: Named,
    collective: str | None = None,
    ranks: int = 8,
    root: int = 0,
    hosts: int | None = None,
    blocks: int | None = None,
    nbytes: int | str | None = None,
    alpha: str = ALPHA,
    bandwidth: str = BANDWIDTH,
    cluster: Cluster | str | Path | None = None,
) -> Picture:
    """Draw collective algorithms on so many ranks; the result plays in the cell of a notebook.

    ``algorithms``: names (ring, all_reduce/ring), files of your own, or functions that
    ``@algorithm`` stands above; of a name that several collectives have the first is shown, or that
    of ``collective``. ``hosts`` share the ranks in order; a pipeline cuts the vector of ``nbytes``
    (1 MiB a rank) into ``blocks``. What is wrong with one of your own is marked where it happens.
    Each message takes ``alpha``, then goes at ``bandwidth``; on a
    ``cluster`` every message is simulated.

    Raises UsageError where there is no such algorithm, it does not serve the ranks, or there would
    be too much to show.

    >>> st.show("ring", ranks=4).save("ring.html")
    PosixPath('ring.html')
    """
    if not algorithms:
        raise UsageError("nothing says what to show: name an algorithm, such as ring")
    link = link_of(alpha, bandwidth)
    place = None if cluster is None else cluster_of(cluster)
    on = hosts_of_ranks(ranks, hosts, place)
    parts = DEFAULT_BLOCKS if blocks is None else blocks
    panels = []
    for one, own in _found(algorithms, collective):
        made = safe_schedule(one, ranks, root=root, hosts=on, blocks=parts)
        findings = prove(made).findings if own else None
        panels.append(panel(one, made, bytes_of(ranks, nbytes), link, place, findings))
    return Picture(tuple(panels))


def link_of(alpha: str, bandwidth: str) -> Link:
    """What every message crosses; UsageError where it carries nothing."""
    link = Link(parse_seconds(alpha), parse_rate(bandwidth))
    if link.bandwidth <= 0:
        raise UsageError(f"--bandwidth is {bandwidth}: it must be above 0")
    return link


def cluster_of(cluster: Cluster | str | Path) -> Cluster:
    """The cluster itself, or that of a name or a file."""
    return cluster if isinstance(cluster, Cluster) else cluster_named(cluster)


def hosts_of_ranks(
    ranks: int, hosts: int | None, cluster: Cluster | None
) -> tuple[int, ...] | None:
    """The host of each rank; UsageError where both a cluster and a number of hosts say it."""
    if cluster is None:
        return hosts_of(ranks, hosts)
    if hosts is not None:
        raise UsageError("--hosts is given, and --cluster says which ranks share a host: drop one")
    return tuple(cluster.host_of[cluster.placed(ranks)].tolist())


def _found(names: Iterable[Named], collective: str | None) -> Iterable[tuple[Algorithm, bool]]:
    """One algorithm for each name, of a user's file all of them; whether it is the user's own."""
    for name in names:
        if isinstance(name, Algorithm):
            yield name, True
            continue
        own = is_own(str(name))
        found = find_algorithms(str(name), collective)
        yield from ((one, own) for one in (found if own else found[:1]))
