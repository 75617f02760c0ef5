"""What the proofs showed, as a table with one line an algorithm and the findings below it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.collectives.proof import Finding
from steptime.collectives.verification import Verdict

_SHOWN_FINDINGS = 6
_SHOWN_RUNS = 5


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Print ``verdicts``, which stand together when they are of one algorithm."""
    groups = [
        list(group) for _, group in groupby(verdicts, key=lambda v: (v.collective, v.algorithm))
    ]
    console.print()
    console.print(_table(groups))
    for group in groups:
        for line in _findings(group):
            console.print(line)
    for sentence in _sentences(groups):
        console.print(Text(sentence))


def _table(groups: Sequence[Sequence[Verdict]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for title in ("collective", "algorithm", "ranks"):
        table.add_column(title, no_wrap=True)
    for title in ("rounds", "sent\nS", "reduced\nS", "same\nbits"):
        table.add_column(title, justify="right", no_wrap=True)
    for group in groups:
        largest = group[-1]
        wrong = [verdict.ranks for verdict in group if not verdict.ok]
        ranks = f"wrong {_ranges(wrong)}" if wrong else _ranges([v.ranks for v in group])
        figures = (
            str(largest.rounds),
            _of_vector(largest.bytes_sent_max, largest.nbytes),
            _of_vector(largest.bytes_reduced_max, largest.nbytes),
            _same_bits(group),
        )
        table.add_row(
            largest.collective,
            largest.algorithm,
            ranks,
            *(("–",) * len(figures) if wrong else figures),
            style="bold red" if wrong else None,
        )
    return table


def _same_bits(group: Sequence[Verdict]) -> str:
    """Whether the result is the same to the bit everywhere; a barrier has none."""
    if not group[-1].nbytes:
        return "–"
    return "yes" if all(verdict.same_bits for verdict in group) else "no"


def _of_vector(count: int, nbytes: int) -> str:
    return f"{count / nbytes:.2f}" if count else "0"


def _findings(group: Sequence[Verdict]) -> Iterator[Text]:
    """What is wrong for the fewest ranks, where it is easiest to follow."""
    wrong = next((verdict for verdict in group if not verdict.ok), None)
    if wrong is None:
        return
    root = f", root {wrong.root}" if len(wrong.roots) > 1 else ""
    title = f"{wrong.collective} {wrong.algorithm} is wrong for {wrong.ranks} ranks{root}:"
    yield Text(title, style="bold")
    yield from finding_lines(wrong.findings)
    yield Text()


def finding_lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """Where something is wrong and what, a line each."""
    for finding in findings[:_SHOWN_FINDINGS]:
        when = f"round {finding.round}" if finding.round >= 0 else "no round wrote it"
        text = Text(f"  rank {finding.rank}, chunk {finding.chunk}, {when}: ", style="red")
        yield text.append(finding.what, style="default")
    more = len(findings) - _SHOWN_FINDINGS
    if more > 0:
        yield Text(f"  and {more} more; --json lists them")


def _sentences(groups: Sequence[Sequence[Verdict]]) -> Iterator[str]:
    wrong = sum(any(not verdict.ok for verdict in group) for group in groups)
    proofs = sum(len(verdict.roots) for group in groups for verdict in group)
    if wrong:
        those = (
            "The algorithm is" if len(groups) == 1 else f"{wrong} of {len(groups)} algorithms are"
        )
        yield f"{those} wrong."
        return
    those = "The algorithm is" if len(groups) == 1 else f"All {len(groups)} algorithms are"
    yield (
        f"{those} right, whatever the timing of the messages: {proofs:,} "
        f"{'proof' if proofs == 1 else 'proofs'}."
    )
    if any(len(verdict.roots) > 1 for group in groups for verdict in group):
        yield "Rooted collectives are proved with the first, the middle and the last rank as root."
    yield (
        "Rounds, and the bytes that one rank sends and reduces at most, are computed for the "
        "largest of these numbers of ranks, with the first as root; S is the whole vector."
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with a dash for those that follow each other: ``1–8, 16``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    shown = words[:_SHOWN_RUNS] + ["…"] * (len(words) > _SHOWN_RUNS)
    return ", ".join(shown)
