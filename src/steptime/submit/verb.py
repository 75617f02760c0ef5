"""What is known of a verb before it runs as a job, from the words that follow it."""

from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.submit.options import SubmitOptions


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb of steptime, as the command line reads its words."""

    name: str

    ranks: int | None = None
    """Ranks that it asks for itself."""

    shared: bool = False
    """Whether several ranks share its work; otherwise each would do all of it."""

    leaves_run: bool = False
    """Whether it leaves the folder of a run."""

    out: str | None = None
    """The folder that it was told to leave."""

    goes_on: bool = False
    """Whether it loses nothing when it is ended and started again."""


def check_ranks(verb: Verb, asked: SubmitOptions) -> None:
    """Raise UsageError where the job would have other ranks than its verb."""
    if verb.ranks is not None and verb.ranks != asked.ranks:
        raise UsageError(
            f"--ranks {verb.ranks} disagrees with --nodes {asked.nodes} of --ranks-per-node "
            f"{asked.ranks_here}: leave --ranks out, the job has those"
        )
    if asked.ranks > 1 and not verb.shared:
        raise UsageError(
            f"each of {asked.ranks} ranks would do the same {verb.name}: leave out --nodes and "
            "--ranks-per-node"
        )
