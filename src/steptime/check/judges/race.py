"""Race: memory that is used while a call or a save still uses it, and calls nobody waits for."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Seen, seen
from steptime.words import listed

_OBSERVED = "race"
_USES, _UNWAITED = ("written", "read"), "unwaited"


def _race(job: Job) -> Iterator[Finding]:
    """One finding for all ranks on which the same lines race.

    A rank that fails lets go of whatever it had under way. Of a call that was not waited for the
    first line that uses its memory is told, and that others do, too.
    """
    failed = {rank for rank, one in job.standings.items() if one.failed}
    raced = list(seen(job, _OBSERVED, ("fault", "call", "call_at", "at", "by")))
    uses: dict[tuple[Any, ...], list[Seen]] = {}
    for one in raced:
        if one.facts["fault"] in _USES:
            uses.setdefault(_of_call(one), []).append(one)
    for one in raced:
        fault = one.facts["fault"]
        of_call = uses.get(_of_call(one), []) if fault in (*_USES, _UNWAITED) else []
        if of_call and one is not of_call[0]:
            continue
        if fault == _UNWAITED and failed.intersection(one.ranks):
            continue
        what, mend = _SENTENCES[fault](one)
        yield Finding(
            kind=FindingKind.RACE,
            ranks=one.ranks,
            places=_places(one),
            what=f"{what}{_also(of_call)}",
            mend=mend,
        )


def _of_call(one: Seen) -> tuple[Any, ...]:
    """A call by its line, on the ranks that are seen to use its memory."""
    return one.facts["call"], one.facts["call_at"], *one.ranks


def _also(uses: Sequence[Seen]) -> str:
    """Which other lines use the memory of a call, if any do."""
    others = list(dict.fromkeys(str(one.facts["at"]) for one in uses))[1:]
    return f"; {listed(others)} {'use' if others[1:] else 'uses'} it, too" if others else ""


def _places(one: Seen) -> list[CallSite]:
    """The line at fault first: where the memory is used, else where the call is made."""
    keys = ("at", "call_at") if one.facts["at"] else ("call_at",)
    return [place for key in keys for place in one.places(key)]


def _written(one: Seen) -> tuple[str, str]:
    call, at = _call(one), one.facts["at"]
    return (
        f"{at} writes memory that {call} still uses: the call was not waited for, so what it "
        f"moves is chance",
        f"wait for the handle of {call} before {at}, or let it have memory of its own",
    )


def _read(one: Seen) -> tuple[str, str]:
    call, at = _call(one), one.facts["at"]
    return (
        f"{at} reads what {call} has yet to write: the call was not waited for, so what is read "
        f"is chance",
        f"wait for the handle of {call} before {at}",
    )


def _overlap(one: Seen) -> tuple[str, str]:
    call, by, at = _call(one), one.facts["by"], one.facts["at"]
    return (
        f"{_a(by)} at {at} uses memory that {call} still uses: two calls under way share it, and "
        f"one of them writes it",
        f"wait for the handle of {call} before {at}, or give each call memory of its own",
    )


def _doubled(one: Seen) -> tuple[str, str]:
    return (
        f"{_call(one)} is to write the same memory more than once: its outputs are one tensor "
        f"several times, or tensors that overlap, so only what comes last remains",
        "make one tensor a rank: [torch.empty_like(t) for _ in range(world_size)] instead of "
        "[t] * world_size",
    )


def _gaps(one: Seen) -> tuple[str, str]:
    return (
        f"{_call(one)} is given a tensor with gaps, as a column of a matrix is: gloo moves what "
        f"lies from its beginning on, gaps included, so other elements change than meant",
        "give it t.contiguous(), and copy the result back where the call writes it",
    )


def _dropped(one: Seen) -> tuple[str, str]:
    return (
        f"{_call(one)} writes into {one.facts['by']}, a copy that nobody has once the line is "
        f"over: what it brings is lost",
        "give the copy a name, let the call write into that, and copy it back",
    )


def _unwaited(one: Seen) -> tuple[str, str]:
    call = _call(one)
    return (
        f"nobody waits for {call}: its handle is let go, so nothing tells when its memory may be "
        f"used again, nor whether it failed",
        "keep the handle and call wait() on it before its tensors are used again",
    )


def _torn(one: Seen) -> tuple[str, str]:
    into = f" into {one.facts['by']}" if one.facts["by"] else ""
    return (
        f"{one.facts['at']} steps the optimizer while another thread saves its parameters{into}: "
        f"the file has some as they were before the step, and some as they are after it",
        "give the thread copies that are made before training goes on, one.clone() for each, or "
        "let torch.distributed.checkpoint.async_save do so",
    )


def _call(one: Seen) -> str:
    return f"the {one.facts['call']} of {one.facts['call_at']}"


def _a(kind: Any) -> str:
    return f"{'an' if str(kind)[0] in 'aeiou' else 'a'} {kind}"


_SENTENCES = {
    "written": _written,
    "read": _read,
    "overlap": _overlap,
    "doubled": _doubled,
    "gaps": _gaps,
    "dropped": _dropped,
    "unwaited": _unwaited,
    "torn": _torn,
}

JUDGE = Judge(_race)
