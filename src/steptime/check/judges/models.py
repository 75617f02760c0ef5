"""Models that differ: what DDP wraps has other parameters on one rank than on another."""

from collections import Counter
from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.words import do
from steptime.check.wrapped import Parameter, wrapped_unlike

_MEND = (
    "Build the model of the same numbers on every rank: let one rank count the vocabulary or the "
    "classes, or read the configuration, and broadcast it."
)


def models(job: Job) -> Iterator[Finding]:
    """The first model that ranks wrap together and have not built alike."""
    found = wrapped_unlike(job)
    if found is None:
        return
    of_rank = found.first_unlike()
    counts = {rank: len(of_model) for rank, of_model in found.parameters.items()}
    ranks_of: dict[str, list[int]] = {}
    for rank, parameter in sorted(of_rank.items()):
        ranks_of.setdefault(_told(parameter, counts[rank]), []).append(rank)
    told = "; ".join(f"{do(ranks, 'has')} {what}" for what, ranks in ranks_of.items())
    (usual, times), *_ = Counter(
        {what: len(ranks) for what, ranks in ranks_of.items()}
    ).most_common()
    odd = [rank for what, ranks in ranks_of.items() if what != usual for rank in ranks]
    yield Finding(
        kind=FindingKind.MISMATCH,
        ranks=sorted(odd if 2 * times > len(of_rank) else of_rank),
        places=found.places,
        what=f"DistributedDataParallel wraps a {found.model} that the ranks have not built "
        f"alike: {told}",
        mend=_MEND,
    )


def _told(parameter: Parameter | None, count: int) -> str:
    if parameter is None:
        return f"no more than {count} parameters"
    name, shape = parameter
    return f"{name} of {' × '.join(map(str, shape)) or 'one element'}"


JUDGE = Judge(models, while_running=True)
