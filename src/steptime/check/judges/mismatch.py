"""Mismatch: ranks that meet in one call, and do not call the same."""

from collections.abc import Iterator

from steptime.check.calls import SETTING_UP
from steptime.check.differences import Difference
from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.parting import parting, parting_told
from steptime.check.threads import between_threads
from steptime.check.words import called, do, group_named, places_of

_MENDS = {
    "kind": "Let every rank of the group call the same collectives in the same order: take what "
    "only some ranks call out of the branch, or let all of them enter it.",
    "ranks": "Let all ranks make all groups in one order, those that they are not in, too.",
    "reduction": "Give every rank the same reduction.",
    "root": "Give every rank the same root: src and dst are ranks of the world, the same on all.",
    "dtype": "Convert the tensor to one dtype on every rank before the call.",
    "split": "Exchange the lengths first, as by an all_to_all of them, and give each rank what the "
    "others send it as output_split_sizes.",
    "size": "Make the tensors equally long on every rank, as by padding, or exchange the lengths "
    "first.",
}
_PARTED = (
    "Let all ranks go the same way there: what each decides for itself, by its data, its clock, "
    "random numbers, a signal or when it frees memory, decide on one rank and broadcast it, or sum "
    "it up first."
)
_THREADS = (
    "Give the thread a group of its own, which every rank makes by dist.new_group() (async_save "
    "takes it as process_group), or let one thread make all calls of a group."
)


def mismatch(job: Job) -> Iterator[Finding]:
    """The first call that ranks of its group do not make alike; what follows it is its doing."""
    found = job.difference
    if found is None:
        return
    first = next(iter(found.parts.values()))
    which = f"call {first.number} of {group_named(first)}"
    if first.group == SETTING_UP:
        which = f"call {first.number} that sets up groups"
    elif first.key[2]:
        which = f"message {first.number} from rank {first.key[2][0]} to rank {first.key[2][1]}"
    told = "; ".join(f"{do(ranks, 'makes')} {part}" for part, ranks in _by_words(found).items())
    odd = found.odd
    other = next(rank for rank in found.parts if found.value(rank) != found.value(odd[0]))
    pair = parting(job.calls, found.parts[odd[0]], other)
    mend = _PARTED if pair is not None and found.what != "kind" else _MENDS[found.what]
    if pair is not None and pair[0].number == first.number:
        pair = None  # it says the same once more
    threads = between_threads(job.calls, found.parts)
    order = ""
    if threads:
        order = (
            f"; {do(threads, 'makes')} them in different threads, so which comes first is chance"
        )
    yield Finding(
        kind=FindingKind.MISMATCH,
        ranks=odd,
        places=places_of([*(pair or ()), *found.parts.values()]),
        what=f"{which} differs in its {found.what}: {told}{order or parting_told(pair)}",
        mend=_THREADS if threads else mend,
        since_s=job.since_s(max(part.issued for part in found.parts.values())),
    )


def _by_words(difference: Difference) -> dict[str, list[int]]:
    """The ranks by what they call and where."""
    before = {"split": " with ", "root": " with root ", "reduction": " by "}.get(difference.what)
    found: dict[str, list[int]] = {}
    for rank, part in sorted(difference.parts.items()):
        value = difference.value(rank)
        more = f"{before}{value}" if before and value else ""
        found.setdefault(called(part) + more, []).append(rank)
    return found


JUDGE = Judge(mismatch, while_running=True)
