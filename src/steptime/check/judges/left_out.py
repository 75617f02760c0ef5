"""Left out: parameters that all ranks have, and train by gradients of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.losses import differ, losses_of
from steptime.check.judges.replicated import apart
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.words import listed

_LEFT_OUT, _BEFORE = "left out", "hashes before"
_OF_NORMS, _OF_OTHERS = "norms", "others"
_OF_ALL, _OF_RING = "all", "ring"
_OF_TOKENS = (_OF_ALL, _OF_RING)
_OF_EXPERTS, _OF_COPIES = "experts", "copies"
_OF_MESH, _OF_SHARDS, _OF_FEWER = "mesh", "shards", "fewer"
_BESIDE_SHARDS = "beside shards"
_ROUNDING = 1e-3
"""Factors by which a rank has scaled its gradients differ by less."""

_GATHERING = {"all_gather", "reduce_scatter", "all_to_all", "scatter"}
"""By these ranks exchange parts of sequences, of which each has its own; what is summed up in a
forward all have alike before."""

_WHOLE = {
    "DistributedDataParallel": "wrap the whole model in DistributedDataParallel, with all that is "
    "trained of it",
    "fully_shard": "call fully_shard on the whole model last, which shards what its parts have "
    "left over",
}
"""The mend by who reduces the gradients of all other parameters."""

_OF_BUCKETS = "reduce every gradient before the step: what fills no whole bucket at the end, too"
_BY_HAND = (
    "let all ranks begin with the same parameters, reduce every gradient before the step, and "
    "change parameters on all ranks alike"
)


@dataclass(frozen=True)
class _Left:
    """What an optimizer of every rank in ``ranks`` has left out before its first step.

    ``by``: who reduces other gradients. ``apart``: the names of the parameters that begin alike
    and whose gradients differ; ``every``: there are no others; ``few``: more than those have the
    same gradient on all ranks, and not one of a single number; ``own``: others begin otherwise on
    each rank. ``scaled``: those gradients have the same signs everywhere, and each rank a factor of
    its own. ``losses``: of these ranks, none where they are not known. ``replicas``: the groups of
    ranks, of several each, that begin alike in ``of_replicas``, and have other gradients.
    """

    by: str
    ranks: Sequence[Noted]
    apart: Sequence[str]
    every: bool
    few: bool
    beside: bool
    own: bool
    scaled: bool
    losses: Sequence[float]
    replicas: Sequence[Sequence[int]]
    of_replicas: Sequence[str]


def _left_out(job: Job) -> Iterator[Finding]:
    """Parameters that all ranks begin with alike and train by gradients that nobody reduces."""
    every = list(_by_optimizer(job))
    found = [one for one in every if one.apart and _is_told(one)]
    whole = [one for one in found if one.by in _OF_TOKENS and _is_of_tokens(one)]
    if whole:
        noted_by = [each for one in whole for each in one.ranks]
        yield finding_of(noted_by, FindingKind.DRIFT, *_of_tokens(whole))
        return
    of_norms = any(one.by == _OF_NORMS for one in found)
    for one in found:
        if one.by not in _OF_TOKENS and not (of_norms and one.by == _OF_OTHERS):
            alike = any(other.by == _OF_OTHERS and not other.apart for other in every)
            what, mend = _shared(one, alike) if one.by == _OF_NORMS else _beside(one)
            yield finding_of(one.ranks, FindingKind.DRIFT, what, mend)
    yield from _replicas(every)


def _is_told(one: _Left) -> bool:
    """Whether it is certain that others are reduced, or have no need to be."""
    of_copies = one.few or (one.beside and one.every)
    certain = {
        _OF_EXPERTS: one.own,
        _OF_OTHERS: one.own,
        _OF_COPIES: of_copies,
        # Where all differ their data does, too, and that is told as such.
        **dict.fromkeys((_OF_MESH, _OF_SHARDS), one.few),
    }
    return certain.get(one.by, True)


def _by_optimizer(job: Job) -> Iterator[_Left]:
    losses = losses_of(job)
    whole = {
        (one.facts["optimizer"], tuple(one.facts["ranks"]))
        for one in noted(job, _BEFORE)
        if one.facts.get("whole") and not one.facts["model"]
    }
    left_out: dict[tuple[int, str, tuple[int, ...], tuple[str, ...]], list[Noted]] = {}
    for one in noted(job, _LEFT_OUT):
        facts = one.facts
        by, ranks, names = facts.get("by", ""), tuple(facts["ranks"]), tuple(facts["names"])
        left_out.setdefault((facts["optimizer"], by, ranks, names), []).append(one)
    for (number, by, ranks, names), each in left_out.items():
        if len(each) < len(ranks):
            continue
        values, gradients, signs = (
            _distinct(each, what) for what in ("values", "gradients", "signs")
        )
        apart = [at for at in range(len(names)) if values[at] == 1 < gradients[at]]
        replicas, of_replicas = _replicated(each, names)
        constant = each[0].facts.get("constant", ())
        reduced = [at for at, one in enumerate(constant) if gradients[at] == 1 and not one]
        yield _Left(
            by=by,
            ranks=each,
            apart=[names[at] for at in apart],
            every=len(apart) == len(names),
            few=len(apart) < len(reduced),
            beside=any(of == ranks and other != number for other, of in whole),
            own=max(values) > 1,
            scaled=all(signs[at] == 1 for at in apart) and _are_scaled(each, apart),
            losses=[losses[rank] for rank in ranks] if losses.keys() >= set(ranks) else [],
            replicas=replicas,
            of_replicas=of_replicas,
        )


def _replicated(
    ranks: Sequence[Noted], names: Sequence[str]
) -> tuple[Sequence[Sequence[int]], Sequence[str]]:
    """The groups of ranks that begin alike in parameters, of those that differ between groups.

    None where one rank has what no other has, or some gradients are the same within a group.
    """
    groups: set[tuple[tuple[int, ...], ...]] = set()
    found = []
    for at, name in enumerate(names):
        by_value: dict[int, list[Noted]] = {}
        for one in ranks:
            by_value.setdefault(_noted(one, "values")[at], []).append(one)
        if len(by_value) == 1:
            continue
        for group in by_value.values():
            gradients = {_noted(one, "gradients")[at] for one in group}
            if len(group) < 2 or len(gradients) < len(group):
                return (), ()
        groups.add(tuple(tuple(one.rank for one in group) for group in by_value.values()))
        found.append(name)
    return (groups.pop(), found) if len(groups) == 1 else ((), ())


def _are_scaled(ranks: Sequence[Noted], apart: Sequence[int]) -> bool:
    """Whether each rank's gradients are longer than the first one's by a factor of its own."""
    largest = [one.facts.get("largest", ()) for one in ranks]
    if not all(largest):
        return True  # older records tell of signs alone
    factors = [[of[at] / (largest[0][at] or 1.0) for at in apart] for of in largest]
    return all(max(of) - min(of) <= _ROUNDING * max(of) for of in factors if of)


def _distinct(ranks: Sequence[Noted], what: str) -> list[int]:
    """How many values of ``what`` there are of each parameter, on ranks that should have one.

    Of shards those of any one place along their axis.
    """
    by_place: dict[int, list[Noted]] = {}
    for one in ranks:
        by_place.setdefault(one.facts.get("place", -1), []).append(one)
    counts = [
        [len(set(of)) for of in zip(*(_noted(one, what) for one in those), strict=True)]
        for those in by_place.values()
    ]
    return [max(of) for of in zip(*counts, strict=True)]


def _noted(one: Noted, what: str) -> Sequence[int]:
    """Hashes of a rank; for those of signs, which older records lack, the gradients' own."""
    found: Sequence[int] = one.facts.get(what, one.facts["gradients"])
    return found


def _splitting(one: _Left, where: str = "splitting") -> set[str]:
    """The kinds of calls by which ranks share layers in forwards, or of all in backwards."""
    return {kind for each in one.ranks for kind in each.facts.get(where, ())}


def _are_shards(one: _Left) -> bool:
    """Whether a script shards parameters itself: it shares no layer, and scatters gradients."""
    return not _splitting(one) and "reduce_scatter" in _splitting(one, "returning")


def _is_of_tokens(one: _Left) -> bool:
    """Whether ranks with parts of one sequence seem to have the whole model each."""
    losses_differ = bool(one.losses) and differ(one.losses)
    return one.every and (one.by == _OF_RING or (losses_differ and _splitting(one) <= _GATHERING))


def _beside(one: _Left) -> tuple[str, str]:
    if one.by == _OF_OTHERS and _are_shards(one):
        return _of_shards(one)
    if one.by == _OF_EXPERTS:
        return (
            f"{_trained(one)} but not reduced, though all ranks begin with the same, as not with "
            "what each has of its own, such as experts: each rank steps by the gradient of its own "
            "tokens",
            "reduce the gradients of what all ranks have, as of a router, before each step",
        )
    if one.by in (_OF_MESH, _OF_SHARDS):
        return _of_part(one)
    if one.by == _BESIDE_SHARDS:
        return (
            f"{_trained(one)} but not reduced, beside a sharded model after which they came, as "
            "adapters do: fully_shard reduces what it was given, and each rank trains its own",
            "add what is trained before fully_shard, which shards it and reduces its gradients; or "
            "give it to DistributedDataParallel",
        )
    if one.by == _OF_FEWER:
        return (
            f"{_trained(one)} by gradients that are reduced among fewer ranks than others are: "
            "several ranks begin with the same shard, as replicas of it, and each goes on by the "
            "gradient of its own group",
            "shard all that is trained over a mesh of all ranks, as over (replicate, shard) both, "
            "not over one dimension of it; or, where these are parts that differ, such as "
            "experts, begin with others on each",
        )
    if one.by == _OF_OTHERS:
        return (
            f"{_trained(one)} by gradients that differ, though all ranks begin with the same, and "
            "share the layers around it: what they compute outside of these differs, as by "
            "dropout of other seeds, or is but a part that nobody sums up",
            "compute alike on all ranks what they do not share: the same batches, and one seed for "
            "dropout there; and sum up the gradients of what each has a part of",
        )
    return (
        f"{_trained(one)} but not reduced, where the gradients of all others are: each rank steps "
        "by a gradient of its own",
        _OF_BUCKETS if one.by == _OF_COPIES and one.few else _WHOLE.get(one.by, _BY_HAND),
    )


def _replicas(every: Sequence[_Left]) -> Iterator[Finding]:
    """Parts of a model that several ranks have, where others have others, as replicated experts."""
    for one in every:
        if one.by == _OF_OTHERS and one.replicas:
            groups = listed([ranks_named(group) for group in one.replicas])
            yield finding_of(
                one.ranks,
                FindingKind.DRIFT,
                f"{groups} each begin with the same {len(one.of_replicas)} parameters of the "
                "optimizer, as replicas of what other ranks have others of, such as experts, and "
                "nobody reduces their gradients, though those of what all ranks have are: each "
                "rank trains its own",
                "reduce the gradients of such a part among the ranks that have it, before each "
                "step",
            )


def _shared(one: _Left, alike_beside: bool) -> tuple[str, str]:
    """What is wrong with the layers that ranks share, and how to mend it.

    ``alike_beside``: what is whole beside these norms is trained by the same gradients everywhere.
    """
    inputs = [each.facts.get("norm_input", ()) for each in one.ranks]
    if _are_shards(one):
        return _of_shards(one)
    if one.scaled and len(one.apart) > 1:
        return _scaled(one)
    if alike_beside and not _splitting(one) & _GATHERING:
        return _of_part(one)
    if all(inputs) and apart(inputs) and not _splitting(one) & _GATHERING:
        return _of_other_data(one)
    if one.losses and all(inputs) and not apart(inputs):
        to_sum = "splitting" if differ(one.losses) else "returning"
        if "all_reduce" in _splitting(one, to_sum):
            return _within(one)
        return _not_summed(one) if differ(one.losses) else _not_summed_back(one)
    return _of_norms(one)


def _of_tokens(those: Sequence[_Left]) -> tuple[str, str]:
    groups = listed([ranks_named(sorted(each.rank for each in one.ranks)) for one in those])
    return (
        f"{groups} begin with the same model{', each group with one,' if len(those) > 1 else ','} "
        "exchange parts of their sequences within its layers, and nobody reduces its gradients: "
        "each rank steps by those of its own tokens",
        "all_reduce every gradient among the ranks that share a sequence before each step, as "
        "among those of the data axis; or give DistributedDataParallel the group of all of them",
    )


def _of_shards(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} but not reduced, though all ranks begin with the same: the backward "
        "reduces the gradients of others, and of these each rank steps by its own",
        "reduce the gradients of these before the step, too, or shard them as the others are",
    )


def _scaled(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} by gradients that have the same signs on all ranks and another length: "
        "the ranks share layers, and each scales its gradients, as in clipping them, by the norm "
        "of its own parts",
        "clip by one norm: sum up the squares of what each rank has of its own over the ranks, and "
        "count once what all of them have",
    )


def _of_other_data(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} by gradients that differ: the ranks share layers, and compute on other "
        "data than one another before the first of them already, so what they sum up belongs to "
        "no sample",
        "give all ranks that share layers the same batches, and one seed for what lies outside of "
        "their parts, dropout and parameters",
    )


def _of_part(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} by gradients that differ: they are whole on every rank and lie within "
        "layers that the ranks share, as norms of queries, keys or heads, or a router beside the "
        "rank's own experts, so each rank's gradient is of its part alone, and nobody sums it up",
        "all_reduce the gradients of what is whole within such layers among the ranks that share "
        "them, before each step",
    )


def _within(one: _Left) -> tuple[str, str]:
    """Where sums are made, and yet not all that is whole is alike."""
    loss = "" if differ(one.losses) else "have the same loss and "
    return (
        f"{_trained(one)} by gradients that differ, though the ranks {loss}sum up what their parts "
        "of the layers give and send back: between those layers they compute on other data, as by "
        "dropout of other seeds, or one of the layers is not summed up",
        "give all ranks that share layers one seed for what lies outside of their parts, as "
        "dropout; and sum up each of these layers, in the forward and its gradient in the backward",
    )


def _not_summed_back(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} by gradients that differ, though all ranks have the same loss: each "
        "shared layer sends back the gradient of the rank's own part alone",
        "all_reduce the gradient of what goes into the layers that ranks share, in the backward of "
        "an autograd.Function that passes it on in its forward",
    )


def _not_summed(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} by gradients that differ, though the ranks compute on the same data: "
        "each goes on with what its own part of a shared layer gives",
        "sum up in the forward, by all_reduce, what the ranks' parts of a layer give, before "
        "anything that is not linear; or gather it where each has other columns",
    )


def _of_norms(one: _Left) -> tuple[str, str]:
    return (
        f"{_trained(one)} but not reduced, norms that the ranks share each layer around, and begin "
        "alike: each rank steps by a gradient of its own",
        "all_reduce the gradients of what each rank has whole, as norms of its part of the "
        "tokens, among the ranks that share the layers, before each step",
    )


def _trained(one: _Left) -> str:
    """Which parameters are trained: ``parameters 3, 4 and 7 of the optimizer are trained``."""
    numbers = [name.removeprefix("parameter ") for name in one.apart]
    if len(numbers) == 1:
        return f"{one.apart[0]} of the optimizer is trained"
    more = [f"{len(numbers) - 4} more"] if len(numbers) > 5 else numbers[4:]
    return f"parameters {listed([*numbers[:4], *more])} of the optimizer are trained"


JUDGE = Judge(_left_out)
