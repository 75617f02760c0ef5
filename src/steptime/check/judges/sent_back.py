"""Sent back: gradients that a backward sums up though all ranks have the same."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import alike
from steptime.check.judging import Judge
from steptime.check.observed import noted, whole_calls
from steptime.check.words import ranks_named

_SENT_BACK = "sent back"
_AVERAGED = ("batch", "wrapped", "hashes before")
"""What is noted where DDP, FSDP or the script may average the gradients over the ranks again."""

_LEAST = 3  # calls of a line


def _sent_back(job: Job) -> Iterator[Finding]:
    """The first line whose calls all sum up what is the same on every rank.

    A remark: who divides the loss by the ranks has the right gradient after all, but for what is
    behind that sum. Where gradients are averaged over the ranks, the average divides. Shards that
    are alike have the same gradients: that is told as such.
    """
    if any(alike.JUDGE.judge(job)):
        return
    averaged = {tuple(one.facts["ranks"]) for what in _AVERAGED for one in noted(job, what)}
    for site, among, whole in whole_calls(job, _SENT_BACK):
        same = all(len({one.facts["hash"] for one in ranks}) == 1 for ranks in whole)
        if len(whole) >= _LEAST and same and among not in averaged:
            yield Finding(
                kind=FindingKind.DRIFT,
                remark=True,
                ranks=sorted(among),
                places=[place for one in whole[0] for place in one.places],
                what=f"{site} sums up, in a backward, gradients that are the same on "
                f"{ranks_named(among)}, as where all compute one loss: what is before it gets "
                f"{len(among)} times its gradient, and what is behind it once",
                mend="pass on the gradient as it is in the backward of a sum whose result all "
                "ranks go on with alike; torch.distributed.nn.functional.all_reduce sums once more",
            )
            return


JUDGE = Judge(_sent_back)
