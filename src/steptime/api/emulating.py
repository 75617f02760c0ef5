"""``steptime.emulate``: a command on hosts that this machine stands in for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steptime.api.cells import html_of, text_of
from steptime.cluster import Cluster, cluster_named
from steptime.emulate.faults import parse_faults
from steptime.emulate.plan import Plan, Start
from steptime.emulate.planning import plan_of
from steptime.emulate.telling import record, sentences_after, sentences_before

if TYPE_CHECKING:
    from rich.console import Console

    from steptime.emulate.emulate import Answer


@dataclass(frozen=True, eq=False, repr=False)
class Emulated:
    """What a command on an emulated cluster left behind."""

    plan: Plan
    answer: "Answer"

    @property
    def status(self) -> int:
        """The command's exit status; 128 plus the number of a signal that ended it."""
        return self.answer.status

    @property
    def bytes_by_link(self) -> Mapping[str, int]:
        """What crossed each link, headers included."""
        return self.answer.bytes_by_link

    @property
    def sentences(self) -> list[str]:
        """What happened to the links, and what crossed them."""
        return list(sentences_after(self.plan, self.answer))

    @property
    def record(self) -> dict[str, Any]:
        """All of it, as ``--json`` has it."""
        return record(self.plan, self.answer)

    def print(self, console: "Console") -> None:
        """Print what was set up, and what crossed the links."""
        for sentence in (*sentences_before(self.plan), *self.sentences):
            console.print(sentence)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def emulate(
    cluster: str | Cluster,
    *command: str,
    ranks: int | None = None,
    start: Start | None = None,
    time_dilation: float = 1.0,
    congestion_control: str | None = None,
    rails: int = 1,
    faults: str = "",
    tell: Callable[[str], None] | None = None,
) -> Emulated:
    """What if my hosts had these links? Run a command on a cluster that this machine emulates.

    Each host is a set of namespaces with a name, an address and a /dev/shm of its own, and its link
    is shaped to the rates of the ``cluster``, both ways. ``command``: a program and its arguments;
    what it prints goes where this process's own does. ``ranks``: default one on every place.
    ``start``: ranks starts the command as each rank, with torchrun's variables; hosts once on each
    host, as torchrun wants it; once on host 0 alone, as mpirun wants it; default: by what it is.
    ``time_dilation``: by what links are slower than the cluster's.
    ``congestion_control``: TCP's there, default cubic, else reno. ``rails``: the interfaces among
    which a host's link is split, each on a switch of its own. ``faults``: what happens to links
    meanwhile, as in "host1 down at 10s for 5s". ``tell`` is given what is set up, a sentence each,
    before the command starts.

    Raises UsageError where the cluster has one host, or this machine cannot stand in for it.

    >>> run = st.emulate("office-10gbe:hosts=2", "true", ranks=2, time_dilation=10)
    >>> run.status, sorted(run.bytes_by_link)
    (0, [...])
    """
    from steptime.emulate.emulate import emulate as run

    plan = plan_of(
        cluster_named(cluster) if isinstance(cluster, str) else cluster,
        command,
        ranks=ranks,
        start=start,
        dilation=time_dilation,
        faults=parse_faults(faults),
        congestion=congestion_control,
        rails=rails,
    )
    if tell is not None:
        for sentence in sentences_before(plan):
            tell(sentence)
    return Emulated(plan, run(plan))
