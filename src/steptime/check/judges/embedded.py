"""Embedded: ranks that share the rows of an embedding, and add rows for the tokens of others."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted

_EMBEDDED = "embedded"
_MOST = 1.5
"""So many times as many elements as there are may be brought: rows of others should be zeros."""


def _embedded(job: Job) -> Iterator[Finding]:
    """Sums to which the ranks bring more elements than there are, each of an embedding.

    Shoeybi et al. 2019, "Megatron-LM", section 3: a rank has the rows of some tokens, and zeros for
    all others, so that the sum is the row of the rank that has it.
    """
    sums: dict[tuple[int, ...], list[Noted]] = {}
    for one in noted(job, _EMBEDDED):
        sums.setdefault((*one.facts["ranks"], one.facts["elements"]), []).append(one)
    for (*among, elements), ranks in sums.items():
        filled = sum(one.facts["filled"] for one in ranks)
        if len(ranks) == len(among) > 1 and filled > _MOST * elements:
            at = ranks[0].log.sites.get(ranks[0].facts["at"], "the script")
            yield finding_of(
                ranks,
                FindingKind.DRIFT,
                f"{at} sums up what the ranks have looked up in an embedding, and they bring "
                f"{filled / elements:.1f} times as many elements as there are: rows for tokens "
                "that another rank has are added to its own",
                "set to zero, before the sum, the rows of tokens that are not among the rank's own",
            )
            return


JUDGE = Judge(_embedded)
