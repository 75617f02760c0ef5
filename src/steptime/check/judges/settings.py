"""Settings: modules that replicas of a model compute by other numbers in, and losses."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of
from steptime.check.replicating import with_ranks
from steptime.words import listed

_SETTINGS = "settings"
_MOST_SAID = 60  # characters of what a module says of itself


def _settings(job: Job) -> Iterator[Finding]:
    """The first module of each model, and the first loss, whose settings the ranks do not share.

    Where ranks name other modules they have models, or losses, of their own.
    """
    found: dict[tuple[tuple[str, int], tuple[int, ...]], list[Noted]] = {}
    for one, among in with_ranks(job, _SETTINGS):
        what, number = one.facts["of"]
        found.setdefault(((what, number), among), []).append(one)
    told = set[str]()
    for ((what, _), among), ranks in found.items():
        names = [list(one.facts["settings"]) for one in ranks]
        if what in told or len(ranks) < len(among) or any(one != names[0] for one in names):
            continue
        if (name := _first_unlike(names[0], ranks)) is not None:
            told.add(what)
            yield _finding(name, ranks)


def _first_unlike(names: Sequence[str], ranks: Sequence[Noted]) -> str | None:
    for name in names:
        if len({one.facts["settings"][name] for one in ranks}) > 1:
            return name
    return None


def _finding(name: str, ranks: Sequence[Noted]) -> Finding:
    by_rank = [
        f"{_apart(one.facts['settings'][name], ranks, name)} on rank {one.rank}" for one in ranks
    ]
    return finding_of(
        ranks,
        FindingKind.DRIFT,
        what=f"the ranks train one model by other settings: {name} has {listed(by_rank)}, and "
        "what they average is of several functions",
        mend="let one rank read the settings, or make what they are made of, and broadcast it",
    )


def _apart(said: str, ranks: Sequence[Noted], name: str) -> str:
    """Of what a module says of itself the parts that are not the same on all ranks."""
    parts = [one.facts["settings"][name].split(", ") for one in ranks]
    if len({len(each) for each in parts}) == 1:
        unlike = [at for at, each in enumerate(zip(*parts, strict=True)) if len(set(each)) > 1]
        said = ", ".join(said.split(", ")[at] for at in unlike)
    return said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"


JUDGE = Judge(_settings)
