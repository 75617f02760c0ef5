"""Tiny calls: gradients reduced one by one, each at the price of a message."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.twice import reduced_twice
from steptime.check.judging import Judge
from steptime.check.steps import (
    LEAST_GAIN,
    StepCall,
    places,
    spent_in_rows,
    step_length,
    steps_of,
)

TINY_BYTES = 1 << 16
"""Up to about so many a call takes about as long as one of none."""

_MANY = 8
_MOST = 0.75
"""Of a line's calls: where large ones are among them it is not their number that costs."""
_KINDS = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")


def _tiny(job: Job) -> Iterator[Finding]:
    """Lines that make many tiny calls in a row, between the backward and the update."""
    ranks = [] if reduced_twice(job) else steps_of(job)
    first = [call for one in ranks[:1] for call in one.calls]
    for site in dict.fromkeys(call.site for call in first if _may(call)):
        all_of_line = [call for call in first if call.site == site]
        of_line = [call for call in all_of_line if _may(call)]
        number = len(of_line) // ranks[0].number
        if number < _MANY or len(of_line) < _MOST * len(all_of_line):
            continue

        def chosen(call: StepCall, at: object = site) -> bool:
            return _may(call) and call.site == at

        gain = spent_in_rows(ranks, chosen) * (1 - 1 / number) / step_length(ranks)
        if gain >= LEAST_GAIN:
            mean = sum(call.size for call in of_line) // len(of_line)
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=[one.log.rank for one in ranks],
                places=places(ranks, [site]),
                what=f"{site} calls {of_line[0].kind} {number} times a step, with {mean} bytes on "
                f"average: each call waits for messages of its own",
                mend="put the tensors into one, as torch.nn.utils.parameters_to_vector does, and "
                "make one call of it; or let DistributedDataParallel reduce gradients in buckets",
                gain=gain,
            )


def _may(call: StepCall) -> bool:
    return call.direct and call.before_update and call.kind in _KINDS and call.size <= TINY_BYTES


JUDGE = Judge(_tiny)
