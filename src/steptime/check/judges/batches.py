"""Batches: ranks that are trained on the same ones, and passes that are all alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeAlias

from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of
from steptime.check.replicating import with_ranks
from steptime.check.samplers import passes_of
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog
from steptime.words import listed

_BATCH, _RING = "batch", "ring"
Hashes: TypeAlias = tuple[int, ...]
"""Of the tensors of one batch."""

_Passes: TypeAlias = dict[int, tuple[ProcessLog, Mapping[str, Any]]]
"""A pass of each rank."""

LEAST = 4
"""So many batches must be alike: a first one may be a trial."""


@dataclass(frozen=True)
class Batches:
    """What a rank's model was given: hashes of each batch's tensors by its number.

    ``drawn``: which of the first batch's are no constants, and have several elements. ``rows``: a
    hash of each of its first samples, by its number too; none where some are alike.
    ``places_of``: where each was given.
    """

    hashes: Mapping[int, Hashes]
    rows: Mapping[int, Sequence[int]]
    drawn: Sequence[bool]
    places_of: Mapping[int, Sequence[CallSite]]

    @property
    def places(self) -> Sequence[CallSite]:
        """Where the last batch was given."""
        return self.places_of[max(self.places_of)]


def _alike(job: Job) -> Iterator[Finding]:
    """Ranks of one model whose batches are alike, one by one, while they differ among themselves.

    Where all batches are one, as in a benchmark, nothing is to be learned of it; and ranks that
    hand on parts of a sequence may all be given it whole.
    """
    rings = [set(one.facts["ranks"]) for one in noted(job, _RING)]
    for by_rank in batches_of(job):
        seen = given_to_all(by_rank)
        sets: dict[tuple[Hashes, ...], list[int]] = {}
        for rank, batches in by_rank.items():
            sets.setdefault(tuple(batches.hashes[number] for number in seen), []).append(rank)
        shared = [
            of
            for hashes, of in sets.items()
            if len(of) > 1
            and len(set(hashes)) > 1
            and not any(ring.issuperset(of) for ring in rings)
        ]
        if shared and len(seen) >= LEAST:
            ranks = sorted(rank for of in shared for rank in of)
            yield Finding(
                kind=FindingKind.DATA,
                remark=True,
                ranks=ranks,
                places=[place for rank in ranks for place in by_rank[rank].places],
                what=f"{_same_batches(shared)}: a step learns from fewer samples than it takes",
                mend="give each rank a part of its own: DataLoader(…, sampler=DistributedSampler("
                "dataset)), or where batches are drawn at random a seed that differs by rank",
            )


def _some_alike(job: Job) -> Iterator[Finding]:
    """Ranks of which some batches are alike and some are not.

    As where a discriminator is given the same samples on all ranks and, in turn, what a generator
    has made of other noise on each.
    """
    for by_rank in batches_of(job):
        seen = given_to_all(by_rank)
        values = {number: {one.hashes[number] for one in by_rank.values()} for number in seen}
        same = [number for number in seen if len(values[number]) == 1]
        distinct = set.union(set(), *(values[number] for number in same))
        if len(by_rank) > 1 and len(distinct) >= LEAST and len(same) < len(seen):
            ranks = sorted(by_rank)
            yield Finding(
                kind=FindingKind.DATA,
                remark=True,
                ranks=ranks,
                places=[place for rank in ranks for place in by_rank[rank].places_of[same[-1]]],
                what=f"{len(same)} of the first {len(seen)} batches that {ranks_named(ranks)} are "
                "given are the same on all of them, and the others are not, as where samples or "
                "noise come by the same seed: a step learns from fewer of them than it takes",
                mend="give each rank a part of the data of its own, and draw noise by a seed that "
                "differs by rank, as torch.manual_seed(seed + rank), once the model is made",
            )


def _shifted(job: Job) -> Iterator[Finding]:
    """Ranks whose batches are those of another rank, some steps later.

    As where the seed is the step plus the rank, or where each begins at a place of its own and goes
    on by one batch in place of as many as there are ranks.
    """
    places: dict[int, Sequence[CallSite]] = {}
    found: list[tuple[int, int, int]] = []
    for by_rank in batches_of(job):
        for late, early in permutations(by_rank, 2):
            if later := _later(by_rank[early].hashes, by_rank[late].hashes):
                found.append((later, early, late))
                places |= {rank: by_rank[rank].places for rank in (early, late)}
    if found:
        later, early, late = min(found)
        yield Finding(
            kind=FindingKind.DATA,
            remark=True,
            ranks=sorted(places),
            places=[place for rank in sorted(places) for place in places[rank]],
            what=f"rank {late} is given the batches that rank {early} was given "
            f"{later} step{'s' * (later > 1)} before: after a while they have trained on the same "
            "samples, and not each on a part of its own",
            mend="let a step take as many new batches as there are ranks: begin at the rank's "
            "batch and go on by the number of ranks, or seed by step * world size + rank",
        )


def _later(early: Mapping[int, Hashes], late: Mapping[int, Hashes]) -> int:
    """How many steps later one rank is given several batches in a row that another was; else 0."""
    for later in range(1, len(late) - LEAST + 1):
        row: set[Hashes] = set()
        for number, batch in sorted(early.items()):
            if batch != late.get(number + later) or batch in row:
                row = set()  # as where a pass over the data is over
            else:
                row.add(batch)
            if len(row) >= LEAST:
                return later
    return 0


def batches_of(job: Job) -> Sequence[Mapping[int, Batches]]:
    """The first batches of each model, by rank."""
    models: dict[tuple[object, ...], dict[int, Batches]] = {}
    given: dict[tuple[int, int, tuple[int, ...]], list[Noted]] = {}
    for one, ranks in with_ranks(job, _BATCH):
        given.setdefault((one.rank, one.facts["model"], ranks), []).append(one)
    for (rank, *model), batches in given.items():
        of_rank = models.setdefault(tuple(model), {})
        of_rank[rank] = Batches(
            hashes={one.facts["batch"]: hashes_of(one.facts) for one in batches},
            rows={one.facts["batch"]: one.facts.get("rows", ()) for one in batches},
            drawn=batches[0].facts.get("drawn", ()),
            places_of={one.facts["batch"]: one.places for one in batches},
        )
    return list(models.values())


def given_to_all(by_rank: Mapping[int, Batches]) -> Sequence[int]:
    """The numbers of the batches of a model that all of its ranks were given."""
    return sorted(set.intersection(*(set(one.hashes) for one in by_rank.values())))


def are_apart(by_rank: Mapping[int, Batches]) -> bool:
    """Whether no two ranks of a model were given the same batch at once."""
    return all(
        len({of_rank.hashes[number] for of_rank in by_rank.values()}) == len(by_rank)
        for number in given_to_all(by_rank)
    )


def given_to(job: Job) -> Mapping[int, Mapping[int, Hashes]]:
    """The first batches of each rank by their numbers, whichever model has them first."""
    given: dict[int, dict[int, Hashes]] = {}
    for one in noted(job, _BATCH):
        given.setdefault(one.rank, {}).setdefault(one.facts["batch"], hashes_of(one.facts))
    return given


def hashes_of(facts: Mapping[str, Any]) -> Hashes:
    """The hash of each tensor of a batch; in older records one of all."""
    return tuple(facts["hashes"] if "hashes" in facts else [facts["hash"]])


def _same_batches(sets: Sequence[Sequence[int]]) -> str:
    """Which ranks are given the same batches."""
    first, *others = map(ranks_named, sets)
    also = f", and so are {listed(others)}" if others else ""
    return f"{first} are given the same batches{also}"


def _passes(job: Job) -> Iterator[Finding]:
    """Samplers that go through the same data in the same order, again and again."""
    by_place: dict[str, list[tuple[ProcessLog, Sequence[Mapping[str, Any]]]]] = {}
    for log in job.logs:
        for passes in _series(log).values():
            if len(passes) > 1 and len({one["order"] for one in passes}) == 1:
                by_place.setdefault(_where(log, passes[0]), []).append((log, passes))
    for where, repeated in by_place.items():
        passes = repeated[0][1]
        yield Finding(
            kind=FindingKind.DATA,
            remark=True,
            ranks=[one.rank for one, _ in repeated],
            places=[at for one, of_it in repeated for at in places_of(one, of_it[0]["at"])],
            what=f"the DistributedSampler of the loop at {where} shuffles each of {len(passes)} "
            f"passes alike: its epoch stays {passes[0]['epoch']}, so that every pass has the same "
            "batches in the same order",
            mend="call sampler.set_epoch(epoch) before each pass",
        )


def _orders(job: Job) -> Iterator[Finding]:
    """Ranks that take their parts of different orders: some samples are taken twice, some never."""
    passes: dict[tuple[str, int, int, int], _Passes] = {}
    for log in job.logs:
        for series in _series(log).values():
            for number, one in enumerate(series):
                key = (_where(log, one), one["size"], one["replicas"], number)
                passes.setdefault(key, {})[log.rank] = log, one
    told = set()
    for (where, _, replicas, _), by_rank in passes.items():
        orders = {rank: one["order"] for rank, (_, one) in by_rank.items()}
        shared = len(orders) == replicas  # else there are several parts of the job, of its own each
        if shared and len(set(orders.values())) > 1 and where not in told:
            told.add(where)
            seeds = listed([f"{order} on rank {rank}" for rank, order in sorted(orders.items())])
            yield _of_parts(
                by_rank,
                f"each rank takes its part of the data of the loop at {where} out of another "
                f"order, with {seeds} as the sum of seed and epoch: some samples are trained on "
                "by several ranks, and some by none",
                "give DistributedSampler the same seed, and set_epoch the same epoch, on "
                "every rank",
            )


def _of_parts(by_rank: _Passes, what: str, mend: str) -> Finding:
    """That the parts which ranks take in these passes are no parts of one whole."""
    return Finding(
        kind=FindingKind.DATA,
        remark=True,
        ranks=sorted(by_rank),
        places=[at for log, one in by_rank.values() for at in places_of(log, one["at"])],
        what=what,
        mend=mend,
    )


def _contents(job: Job) -> Iterator[Finding]:
    """Ranks that take their parts of one dataset which is not the same on all of them."""
    first: dict[tuple[str, int], _Passes] = {}
    for log in job.logs:
        for one in passes_of(log):
            if one["replicas"] > 1 and one.get("contents"):
                by_rank = first.setdefault((_where(log, one), one["replicas"]), {})
                by_rank.setdefault(log.rank, (log, one))
    for (where, replicas), by_rank in first.items():
        contents = [one["contents"] for _, one in by_rank.values()]
        unlike = len(by_rank) == replicas and len({one["ordered"] for one in contents}) > 1
        if unlike and (told := _unlike(where, replicas, contents)):
            yield _of_parts(by_rank, *told)


def _unlike(
    where: str, replicas: int, contents: Sequence[Mapping[str, Any]]
) -> tuple[str, str] | None:
    """How the datasets of the ranks differ, and the mend.

    None where they may be drawn at random, as in a trial, and be the same in nothing.
    """
    if len({one["bag"] for one in contents}) == 1:
        return (
            f"the dataset of the loop at {where} has its samples in another order on each rank, as "
            "those of a set or of a folder that is listed: of the parts that DistributedSampler "
            "takes some samples are in several, and some in none",
            "sort the samples, or shuffle them by a seed that is the same on every rank",
        )
    if not set.intersection(*(set(one["sketch"]) for one in contents)):
        if any(one["drawn"] for one in contents) and len({one["whole"] for one in contents}) > 1:
            return None
        return (
            f"the dataset of the loop at {where} holds other samples on each rank, and "
            f"DistributedSampler takes one in {replicas} of them: the others are not trained on",
            "give every rank the whole dataset, or leave DistributedSampler out",
        )
    return (
        f"the dataset of the loop at {where} is not the same on all ranks, as where each splits it "
        "by a seed of its own: some samples are trained on by several ranks, and what one holds "
        "back others may train on",
        "split it alike on every rank: random_split(dataset, lengths, "
        "generator=torch.Generator().manual_seed(0))",
    )


def _series(log: ProcessLog) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
    """The shuffled passes of a rank that were trained on, by line and data."""
    series: dict[Any, list[Mapping[str, Any]]] = {}
    for facts in passes_of(log):
        if facts["shuffled"] and facts["replicas"] > 1:
            series.setdefault((facts["at"], facts["dataset"], facts["size"]), []).append(facts)
    return series


def _where(log: ProcessLog, facts: Mapping[str, Any]) -> str:
    return str(log.sites.get(facts["at"], "a DataLoader"))


def _batches(job: Job) -> Iterator[Finding]:
    yield from _alike(job)
    yield from _some_alike(job)
    yield from _shifted(job)
    yield from _passes(job)
    yield from _orders(job)
    yield from _contents(job)


JUDGE = Judge(_batches)
