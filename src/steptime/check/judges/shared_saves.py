"""Shared saves: checkpoints of all ranks that lie apart, or lack what each rank has of its own."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted, whole_calls
from steptime.words import listed

_SHARED_SAVE, _EMPTY_MOMENTS = "shared save", "empty moments"


def _shared_saves(job: Job) -> Iterator[Finding]:
    """Of each line the first save to several paths, or of states by one key; and empty loads."""
    for _, _, saves in whole_calls(job, _SHARED_SAVE):
        apart = next((ranks for ranks in saves if len(_paths(ranks)) > 1), None)
        if apart is not None:
            yield _in_several_places(apart)
        keys = [(ranks, key) for ranks in saves if (key := _key_of_several(ranks))]
        if keys:
            yield _of_one_state(*keys[0])
    yield from _empty_moments(job)


def _paths(ranks: Sequence[Noted]) -> set[str]:
    return {one.facts["path"] for one in ranks}


def _key_of_several(ranks: Sequence[Noted]) -> str:
    """The first key under which the ranks have states that are not the same; "": there is none."""
    for key in ranks[0].facts["states"]:
        states = [one.facts["states"].get(key) for one in ranks]
        if None not in states and len(set(states)) > 1:
            return str(key)
    return ""


def _in_several_places(ranks: Sequence[Noted]) -> Finding:
    paths = listed([f"{one.facts['path']!r} on rank {one.rank}" for one in ranks[:2]])
    return finding_of(
        ranks,
        FindingKind.RACE,
        f"the ranks save one checkpoint in several places, as {paths}: the parts of a rank are not "
        "where its metadata is, and none of these checkpoints is whole",
        "make the path of what all ranks have alike, as the step; broadcast it, or reduce what "
        "stands in it, as a loss, before",
    )


def _of_one_state(ranks: Sequence[Noted], key: str) -> Finding:
    return finding_of(
        ranks,
        FindingKind.RACE,
        f"the ranks save states of their own under the one key {key!r}, as of a generator: the "
        "checkpoint takes them for copies and keeps one, and all ranks go on by that",
        "put the rank into the key",
    )


def _empty_moments(job: Job) -> Iterator[Finding]:
    """Loads that leave out an optimizer's moments, for it has none before its first step."""
    found = noted(job, _EMPTY_MOMENTS)
    if found:
        yield finding_of(
            found,
            FindingKind.RACE,
            "torch.distributed.checkpoint fills what the state has that it is given, and the "
            f"optimizer under {found[0].facts['key']!r} has no moments yet: those of the "
            "checkpoint are not read, and begin at zero",
            "take the state by torch.distributed.checkpoint.state_dict.get_state_dict, which makes "
            "the moments, and give it back by set_state_dict",
        )


JUDGE = Judge(_shared_saves)
