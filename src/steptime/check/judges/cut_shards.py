"""Cut shards: fused projections that tensor parallelism cuts elsewhere than the model does."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import finding_of, noted

_CUT = "cut shard"


def _cut_shards(job: Job) -> Iterator[Finding]:
    """Models that cut a layer's output in pieces, of which each rank has consecutive columns.

    Of gate and up in one weight a rank has the first columns of the one or the last of the other,
    and takes what it has for both.
    """
    found = noted(job, _CUT)
    if found:
        facts = found[0].facts
        whole, part = (" × ".join(map(str, facts[name])) for name in ("shape", "part"))
        yield finding_of(
            found,
            FindingKind.DATA,
            f"an output of {whole} is sharded by its columns, {part} on each rank, and the model "
            f"cuts a rank's part into pieces of {facts['piece']} columns as if it were the whole: "
            "they are not the pieces that one process makes, and a model trained whole, or by "
            "another number of ranks, computes something else here",
            "keep the parts as layers of their own, or order the weight's columns so that each "
            "rank's part has its share of every piece",
            remark=True,
        )


JUDGE = Judge(_cut_shards)
