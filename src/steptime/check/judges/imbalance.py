"""Imbalance: a rank, or a few, that all others wait for in step after step."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from steptime.arrays import Flags, Floats, Longs
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of
from steptime.check.steps import RankSteps, places, steps_of, waited, work_alike
from steptime.check.words import do
from steptime.record.events import Kind
from steptime.record.read import Site
from steptime.record.timeline import recorded_timeline
from steptime.record.waits import awaited
from steptime.timeline.timeline import Phase

_LEAST_GAIN, _LEAST_NS = 0.15, 5e6
_FEWEST, _MOSTLY = 8, 0.6
"""So many steps, and in that part of them the same ranks are last: less is the machine's doing."""

_FACTOR, _MANY = 1.5, 50
"""A processor that shares its core with another's work takes up to half as long again for the same,
for a second or two: what takes longer by less, in a backward, an update or a loader's workers, is
told after so many steps."""

_LINES = "lines"
_BESIDE = "forward and what the script does besides"
_PARTS = {
    Kind.BACKWARD: "backward",
    Kind.OPTIMIZER: "the optimizer's step",
    Kind.DATA: "loading",
}


def _imbalance(job: Job) -> Iterator[Finding]:
    """Ranks that have more to do in a step than all others, of a job whose ranks work alike."""
    ranks = steps_of(job)
    if not ranks or not work_alike(ranks):
        return
    on_devices = any(len(one.log.marks) for one in ranks)
    lost = _waited_on_devices(job, ranks) if on_devices else waited(ranks)
    slow, fast = _parted(lost)
    gaps = lost[fast].min(axis=0) - lost[slow].max(axis=0)
    late = gaps >= _LEAST_NS
    gain = float(gaps.sum() / np.mean([one.bounds[-1] - one.bounds[0] for one in ranks]))
    if gain < _LEAST_GAIN or late.sum() < max(_FEWEST, _MOSTLY * len(gaps)):
        return
    own, others = [ranks[at] for at in slow], [ranks[at] for at in fast]
    longer, gap = _longer(own, others), float(gaps.mean())
    doing = "" if on_devices else _doing(own, others, longer, gap)
    if doing is not None:
        numbers = sorted(one.log.rank for one in own)
        line, at = _line(own, longer, gap)
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=numbers,
            places=[*places(own, line), *places(ranks, [_where(others[0], late)])],
            what=f"{do(numbers, 'comes')} last in {late.sum()} of {len(gaps)} steps, and the "
            f"others wait for {gain:.0%} of the time{doing}{at}",
            mend="give all ranks as much to do, as batches of equally many tokens; let them share "
            "what one does alone, or let a thread do it beside the training; where their work is "
            "alike, see what slows that processor: heat, or another process",
            gain=gain,
        )


def _waited_on_devices(job: Job, ranks: Sequence[RankSteps]) -> Floats:
    """The longest wait of each rank for the last one in a call of each step: what is lost at least.

    Of a GPU it is not known what it computes meanwhile, and so not what its other waits cost.
    """
    longest = np.zeros((len(ranks), ranks[0].number))
    rows = recorded_timeline(job.logs, "step").intervals
    rows = rows[rows["phase"] == Phase.COMMUNICATION]
    rows = rows[(rows["step"] >= 0) & (rows["step"] < longest.shape[1])]
    row_of = {one.log.rank: row for row, one in enumerate(ranks)}
    late = 1e9 * np.maximum(rows["ready"] - rows["start"], 0.0)
    np.maximum.at(longest, ([row_of[rank] for rank in rows["rank"].tolist()], rows["step"]), late)
    return longest


def _parted(lost: Floats) -> tuple[Longs, Longs]:
    """The rows of those that wait least, half of them at most, and of the others.

    Where the means differ most there is the border.
    """
    means = lost.mean(axis=1)
    order = np.argsort(means)
    number = 1 + int(np.diff(means[order])[: len(means) // 2].argmax())
    return order[:number], order[number:]


def _where(fast: RankSteps, late: Flags) -> Site:
    """The line at which one of the others waits longest."""
    times: dict[Site, int] = {}
    for call in fast.calls:
        if late[call.step]:
            times[call.site] = times.get(call.site, 0) + call.waited
    return max(times, key=lambda site: times[site])


def _doing(
    slow: Sequence[RankSteps], fast: Sequence[RankSteps], longer: Mapping[Site, float], gap: float
) -> str | None:
    """What takes the slow ranks longer than the others; None where they only lack a core.

    A thread that has none does not run: how long it ran is known of backwards and optimizers, and
    of lines how long they took besides. These must explain the half of ``gap`` nanoseconds a step.
    """
    own, others = _busy(slow), _busy(fast)
    more = {part: own[part] - others[part] for part in own}
    most = max(more, key=lambda part: more[part])
    for kind in (Kind.BACKWARD, Kind.OPTIMIZER):
        if most == _PARTS[kind]:
            ran, elsewhere_ran = _ran(slow, kind), _ran(fast, kind)
            idle = 2 * (ran - elsewhere_ran) < more[most]
            if idle or (ran < _FACTOR * elsewhere_ran and slow[0].number < _MANY):
                return None
    slightly = own[most] < _FACTOR * others[most] and slow[0].number < _MANY
    if most == _PARTS[Kind.DATA] and slightly:
        return None
    explained = sum(max(each, 0.0) for each in longer.values())
    if most == _BESIDE and longer and explained < gap / 2:
        return None
    took, elsewhere = own[most] / 1e6, others[most] / 1e6
    verb = "take" if most == _BESIDE else "takes"
    return f": there {most} {verb} {took:.1f} ms a step, elsewhere {elsewhere:.1f} ms"


def _line(
    slow: Sequence[RankSteps], longer: Mapping[Site, float], gap: float
) -> tuple[Sequence[Site], str]:
    """The line of the loop that takes slow ranks so much longer, and the one that it leads to.

    It must explain the half of ``gap`` nanoseconds a step; nothing where none does.
    """
    line = max(longer, key=lambda one: longer[one], default=None)
    if line is None or longer[line] < gap / 2:
        return [], ""
    own = _spent(slow)[line]
    inner = max(own, key=lambda one: own[one])
    leads = f", in {inner}" if inner != line else ""
    return [line, inner], f"; {longer[line] / 1e6:.1f} ms of that at {line}{leads}"


def _longer(slow: Sequence[RankSteps], fast: Sequence[RankSteps]) -> dict[Site, float]:
    """How much longer than the others slow ranks are at each line of the loop: ns a step."""
    own, others = _spent(slow), _spent(fast)
    return {
        line: sum(own.get(line, {}).values()) - sum(others.get(line, {}).values())
        for line in {**own, **others}
    }


def _spent(ranks: Sequence[RankSteps]) -> dict[Site, dict[Site, float]]:
    """How long ranks are at each line of the loop, by the lines that it leads to: ns a step."""
    found: dict[Site, dict[Site, float]] = {}
    for one in ranks:
        for facts in facts_of(one.log, _LINES):
            for line, inner, spent in facts["lines"]:
                within = found.setdefault(one.site(line), {})
                share = spent / one.number / len(ranks)
                within[one.site(inner)] = within.get(one.site(inner), 0.0) + share
    return found


def _ran(ranks: Sequence[RankSteps], kind: Kind) -> float:
    """How long the threads of a part ran in a step, in nanoseconds: the mean."""
    return float(np.mean([_thread_times(one, kind).sum() / one.number for one in ranks]))


def _thread_times(steps: RankSteps, kind: Kind) -> Longs:
    events = steps.log.events
    return np.asarray(events["bytes"][events["kind"] == kind])


def _busy(ranks: Sequence[RankSteps]) -> Mapping[str, float]:
    """How long each part of a step takes without its waits, in nanoseconds: the mean."""
    found = dict.fromkeys([*_PARTS.values(), _BESIDE], 0.0)
    for one in ranks:
        waits = np.array([(wait.begin, wait.end) for wait in awaited(one.log)], float)
        begin, end = np.maximum.accumulate(waits.reshape(-1, 2)).T
        begin[1:] = np.maximum(begin[1:], end[:-1])  # of one that overlaps, what is behind

        def busy(since: float, until: float, begin: Floats = begin, end: Floats = end) -> float:
            within = np.minimum(end, until) - np.maximum(begin, since)
            return until - since - float(within[within > 0].sum())

        parts = {
            name: sum(busy(*span[:2]) for of_step in one.spans(kind) for span in of_step)
            for kind, name in _PARTS.items()
        }
        whole = busy(float(one.bounds[0]), float(one.bounds[-1]))
        for name, took in (*parts.items(), (_BESIDE, whole - sum(parts.values()))):
            found[name] += took / one.number / len(ranks)
    return found


JUDGE = Judge(_imbalance)
