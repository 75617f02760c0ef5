"""Drift: replicas that are not equal, and gradients that nobody reduces."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, facts_of, finding_of, noted, places_of, seen
from steptime.check.unreduced import SENTENCES
from steptime.check.words import do, ranks_named
from steptime.record.read import ProcessLog
from steptime.words import listed

_UNREDUCED, _STEPS, _AVERAGED = "unreduced", "steps", "averaged"
_BEFORE, _HASHES, _HOOKED = "hashes before", "hashes", "by hooks"
_BY_HAND, _DROPPED = "by hand", "dropped"

_SO_DO = "; so do those of others that step there"

_TOGETHER = (
    "decide on all ranks together whether to step, as by an all_reduce of the reason to skip with "
    "MAX, before any of them steps"
)

_ALIKE = (
    "let all ranks begin with the same parameters (DDP sees to it when it wraps; or broadcast them "
    "from rank 0), reduce every gradient before the step, and change parameters on all ranks alike"
)

_BY_HOOKS = (
    "reduce every gradient once, in the same order on all ranks, and step by what was reduced: a "
    "gradient that somebody else holds is copied into grad, so return it from the hook, or reduce "
    "grad itself in register_post_accumulate_grad_hook"
)

_Replicas: TypeAlias = tuple[int, str, tuple[int, ...], tuple[str, ...]]
"""An optimizer's number, a model's name, the ranks that hold it, the names of its parameters.

Without a name are those whose gradients the script reduces, and ``by hooks`` if its hooks do.
"""


def _drift(job: Job) -> Iterator[Finding]:
    """What keeps replicas from being equal where that was seen, else since when they differ.

    Those that are averaged now and then may differ in between.
    """
    averaged = {one.facts["model"] for one in seen(job, _AVERAGED, ("model",))}
    apart = {of[1] for of, steps in hashed_replicas(job).items() if ranks_apart(steps)}
    unreduced = [
        one
        for one in seen(job, _UNREDUCED, ("fault", "model", "at", "parameter"))
        # Of a forward within no_sync nobody knows whether its gradients were used.
        if one.facts["model"] not in averaged
        and (one.facts["fault"] != "quiet end" or one.facts["model"] in apart)
    ]
    for one in unreduced:
        what, mend = SENTENCES[one.facts["fault"]](one)
        yield Finding(
            kind=FindingKind.DRIFT, ranks=one.ranks, places=one.places("at"), what=what, mend=mend
        )
    explained = averaged.union(one.facts["model"] for one in unreduced)
    others = list(_of_others(job))
    before = hashed_replicas(job, _BEFORE)
    if any(one.facts["fault"] == _DROPPED for one in noted(job, _BY_HAND)):
        explained.add(_HOOKED)
    told: dict[tuple[object, ...], Finding] = {}
    for of, steps in hashed_replicas(job).items():
        if of[1] not in explained and not (others and not of[1]):
            for differing in _differing(of, steps, before.get(of, {}).get(0, ())):
                same = differing.mend, *differing.places
                told[same] = _with_others(told[same]) if same in told else differing
    yield from told.values()
    yield from others[:1]
    yield from uneven(job)


def _with_others(told: Finding) -> Finding:
    """The same finding, of the parameters of several optimizers that step at its lines."""
    return told if told.what.endswith(_SO_DO) else replace(told, what=told.what + _SO_DO)


def _of_others(job: Job) -> Iterator[Finding]:
    """Steps before which ranks reduced, call by call, the gradients of other parameters.

    Those that are the same after the step are one, as the tied weights of two stages: which number
    an optimizer has for it tells nothing.
    """
    by_step: dict[tuple[int, tuple[int, ...], int], list[Noted]] = {}
    for (optimizer, model, among, _), steps in hashed_replicas(job).items():
        for step, hashed in steps.items() if not model else ():
            by_step.setdefault((optimizer, among, step), []).extend(hashed)
    for (_, among, _), ranks in sorted(by_step.items(), key=lambda one: one[0][2]):
        names = [set(one.facts["names"]) for one in ranks]
        contents = {tuple(sorted(one.facts["hashes"])) for one in ranks}
        unlike = len(ranks) == len(among) and len(contents) > 1
        if unlike and (some := set.union(*names) - set.intersection(*names)):
            first = min(some, key=lambda name: int(name.rpartition(" ")[2]))
            have = [one.rank for one in ranks if first in one.facts["names"]]
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                what=f"the ranks reduce the gradients of other parameters, and so sum up those of "
                f"one with those of another: {do(have, 'has')} that of {first}, and others do not",
                mend="reduce the gradients of all parameters on every rank, zeros where a rank has "
                "none (grad is None there), or decide on all ranks alike which layers a step uses",
            )


def hashed_replicas(job: Job, when: str = _HASHES) -> dict[_Replicas, dict[int, list[Noted]]]:
    """The hashes of each set of replicas, by step."""
    found: dict[_Replicas, dict[int, list[Noted]]] = {}
    for one in noted(job, when):
        facts = one.facts
        of = facts["optimizer"], facts["model"], tuple(facts["ranks"]), tuple(facts["names"])
        found.setdefault(of, {}).setdefault(facts["step"], []).append(one)
    return found


def _differing(
    of: _Replicas, steps: Mapping[int, Sequence[Noted]], before: Sequence[Noted]
) -> Iterator[Finding]:
    """The first step after which replicas differ, if they do: ``before`` it or since."""
    last = 0
    if of[1] == _HOOKED and (len(before) < len(of[2]) or _apart(before)):
        return  # Hooks may reduce, too, what ranks have of their own, as parts of a sequence.
    for step in sorted(steps):
        ranks = steps[step]
        if _apart(ranks):
            yield _from_the_start(of, before) if _apart(before) else _finding(of, ranks, last, step)
            return
        if len(ranks) == len(of[2]):
            last = step


def _apart(ranks: Sequence[Noted]) -> bool:
    return any(one.facts["hashes"] != other.facts["hashes"] for one, other in pairwise(ranks))


def _first_apart(of: _Replicas, ranks: Sequence[Noted]) -> str:
    """The first parameter that is not the same on all, and the model that has it."""
    _, model, _, names = of
    hashes = zip(*(one.facts["hashes"] for one in ranks), strict=True)
    first = next(name for name, each in zip(names, hashes, strict=True) if len(set(each)) > 1)
    return f"{first} of {model.rpartition(' ')[0]}" if model not in ("", _HOOKED) else first


def _from_the_start(of: _Replicas, ranks: Sequence[Noted]) -> Finding:
    """Replicas that were never equal; where some parameters are, the others may be no replicas."""
    hashes = zip(*(one.facts["hashes"] for one in ranks), strict=True)
    some = any(len(set(each)) == 1 for each in hashes)
    of_what = "different models" + ", or of parts that are each rank's own" * some
    own = "sum up no gradients of what each rank has of its own, as shards or experts, and else "
    return finding_of(
        ranks,
        FindingKind.DRIFT,
        what=f"{_parted(ranks)} before the first step of the optimizer already, first in "
        f"{_first_apart(of, ranks)}: the gradients that they reduce are of {of_what}",
        mend=f"{own}{_ALIKE}" if some else _ALIKE,
    )


def _finding(of: _Replicas, ranks: Sequence[Noted], last: int, step: int) -> Finding:
    since = f"step {step}" if step == last + 1 else f"a step between {last + 1} and {step}"
    what = f"{_parted(ranks)} after {since} of the optimizer, first in {_first_apart(of, ranks)}"
    most = max(one.facts["reductions"] for one in ranks)
    ahead = [one for one in ranks if one.facts["reductions"] == most]
    places = [place for one in ranks for place in one.places]
    if len(ahead) < len(ranks):
        who = ranks_named([one.rank for one in ahead])
        behind = [one for one in ranks if one not in ahead]
        if min(map(_kept, behind)) > max(map(_kept, ahead)):
            return Finding(
                kind=FindingKind.DRIFT,
                ranks=[one.rank for one in behind],
                places=places,
                what=f"{do([one.rank for one in behind], 'runs')} the model within no_sync where "
                f"{who} reduced the gradients: {what}",
                mend="enter no_sync on all ranks for the same micro-batches",
            )
        return Finding(
            kind=FindingKind.DRIFT,
            ranks=[one.rank for one in ranks],
            places=places,
            what=f"{who} left out an optimizer step that others made of the same gradients: {what}",
            mend=_TOGETHER,
        )
    usual = _BY_HOOKS if of[1] == _HOOKED else _ALIKE
    cause, mend = _settings_apart(ranks) or _order_apart(ranks) or ("", usual)
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=[one.rank for one in ranks],
        places=places,
        what=f"{cause}: {what}" if cause else what,
        mend=mend,
    )


def _settings_apart(ranks: Sequence[Noted]) -> tuple[str, str] | None:
    """The first number by which ranks step that is not the same on all, and the mend."""
    of_rank = [one.facts.get("settings", ()) for one in ranks]
    for groups in zip(*of_rank, strict=False):
        for name in groups[0]:
            values = [group.get(name) for group in groups]
            if None not in values and len(set(values)) > 1:
                told = [f"{value:g}" for value in values]
                return (
                    f"the optimizer steps with a {name} of {_by_rank(told, ranks)}",
                    f"change {name} on all ranks alike: step its schedule on every rank, by what "
                    "all of them know",
                )
    return None


def _order_apart(ranks: Sequence[Noted]) -> tuple[str, str] | None:
    """Where ranks reduce other gradients in the same call, and the mend."""
    orders = [one.facts.get("order", ()) for one in ranks]
    if len({tuple(sorted(order)) for order in orders}) > 1:
        return None
    for number, names in enumerate(zip(*orders, strict=True), start=1):
        if len(set(names)) > 1:
            return (
                f"the ranks reduce their gradients in other orders, and so sum up those of other "
                f"parameters: reduction {number} of the step has that of {_by_rank(names, ranks)}",
                "reduce gradients in an order that is the same on all ranks, as that of "
                "model.parameters(); a set has none",
            )
    return None


def _by_rank(told: Sequence[str], ranks: Sequence[Noted]) -> str:
    """What each rank has: ``0.1 on rank 0 and 0.2 on rank 1``."""
    return listed([f"{one} on rank {of.rank}" for one, of in zip(told, ranks, strict=True)])


def _kept(one: Noted) -> int:
    """How many forwards a rank has made within no_sync; 0 in what was recorded before that."""
    return int(one.facts.get("kept", 0))


def _parted(ranks: Sequence[Noted]) -> str:
    """Which replicas are like which."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for one in ranks:
        alike.setdefault(tuple(one.facts["hashes"]), []).append(one.rank)
    if len(alike) == len(ranks):
        where = "on every rank" if len(ranks) > 2 else "between the two ranks"
        return f"the parameters differ {where}"
    if len(alike) > 2:
        return f"the parameters differ: there are {len(alike)} sorts among {len(ranks)} ranks"
    fewer, others = (ranks_named(one) for one in sorted(alike.values(), key=len))
    return f"the parameters of {fewer} differ from those of {others}"


def uneven(job: Job) -> Iterator[Finding]:
    """Ranks that ended well with other numbers of steps, of as many reductions.

    Those came before the steps, and not fewer: models of their own may be trained as they like.
    """
    ends: dict[tuple[int, int], dict[int, list[ProcessLog]]] = {}
    for log in job.logs:
        for facts in facts_of(log, _STEPS):
            if facts.get("before", facts["reductions"]) >= facts["steps"]:
                of = facts["optimizer"], facts["reductions"]
                ends.setdefault(of, {}).setdefault(facts["steps"], []).append(log)
    drifted = {log.rank for steps in hashed_replicas(job).values() for log in ranks_apart(steps)}
    for (number, _), by_steps in ends.items():
        fewest, most = min(by_steps), max(by_steps)
        late = [log for log in by_steps[fewest] if log.rank not in drifted]
        if fewest < most and late:
            ranks = [log for logs in by_steps.values() for log in logs]
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(log.rank for log in ranks),
                places=[place for log in ranks for place in _last_step(log, number)],
                what=f"{ranks_named([log.rank for log in late])} made {fewest} steps of the "
                f"optimizer and others {most}, though all reduced as often: their parameters are "
                f"not the same any more",
                mend=_TOGETHER,
            )


def ranks_apart(steps: Mapping[int, Sequence[Noted]]) -> list[ProcessLog]:
    """The ranks of which it is told already that their parameters differ."""
    differ = any(map(_apart, steps.values()))
    return [one.log for ranks in steps.values() for one in ranks] if differ else []


def _last_step(log: ProcessLog, number: int) -> list[CallSite]:
    of_optimizer = [facts for facts in facts_of(log, _HASHES) if facts["optimizer"] == number]
    return places_of(log, of_optimizer[-1]["at"]) if of_optimizer else []


JUDGE = Judge(_drift)
