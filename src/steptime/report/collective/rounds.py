"""A schedule in a terminal: what it costs, its rounds in words, and who sends what to whom."""

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.collectives import Finding, Round, Schedule
from steptime.report.collective.panel import Panel
from steptime.report.collective.picture import Phase, busy_ports, cell, phases, written_rounds
from steptime.report.collective.schedule_timeline import print_schedule_timeline, told
from steptime.report.collective.verdicts import finding_lines
from steptime.units import format_bytes, format_seconds

_REDUCED, _COPIED, _ASIDE, _WRONG = "bright_red", "cyan", "dim", "bold red reverse"
_SHOWN_PHASES = 12
_FIRST_ROUNDS, _LAST_ROUNDS = 20, 4


def print_exhibit(console: Console, shown: Panel) -> None:
    """Print one schedule: its costs, its rounds in words, and a table of them."""
    schedule = shown.schedule
    ranks = f"{schedule.ranks} {'rank' if schedule.ranks == 1 else 'ranks'}"
    root = f", root {schedule.root}" if schedule.collective.rooted else ""
    console.print()
    console.print(Text(f"{shown.title}, {ranks}{root}", "bold"))
    console.print(Text(" ".join(shown.algorithm.doc.split("\n\n")[0].split())))
    console.print(Text(costs(shown)))
    if shown.timeline:
        console.print(Text(told(shown.timeline)))
    if shown.findings:
        console.print()
        console.print(Text(f"It is wrong for {ranks}; ✗ marks where:", "bold red"))
        for line in finding_lines(shown.findings):
            console.print(line)
    rounds = list(written_rounds(schedule))
    if not rounds:
        return
    console.print()
    regular = [phase for phase in phases(schedule) if phase.regular][:_SHOWN_PHASES]
    for phase in regular:
        console.print(_told(phase, len(str(len(rounds) - 1))))
    if regular:
        console.print()
    console.print(_table(schedule, rounds, shown.findings or (), console.width))
    console.print(Text(_key(regular), _ASIDE))
    if shown.timeline:
        print_schedule_timeline(console, shown.timeline)


def costs(shown: Panel) -> str:
    """What a schedule costs, in a sentence or two."""
    cost, nbytes = shown.cost, shown.nbytes
    count = f"{cost.rounds} {'round' if cost.rounds == 1 else 'rounds'}"
    time = f"{format_seconds(shown.seconds)} at {shown.link} (computed)"
    if not nbytes:
        return f"{count} without data; {time}."
    sent, reduced = int(cost.bytes_sent.max()), int(cost.bytes_reduced.max())
    reduces = f" and reduces {reduced / nbytes:.2f} S" if reduced else ""
    return (
        f"{count}; a rank sends {sent / nbytes:.2f} S{reduces} at most. For S = "
        f"{format_bytes(nbytes)}: {format_bytes(sent)} sent, {time}."
    )


def _told(phase: Phase, digits: int) -> Table:
    """A phase with its rounds before it, hanging."""
    span = f"{phase.first}" if phase.first == phase.last else f"{phase.first}–{phase.last}"
    line = Table.grid(padding=(0, 1))
    line.add_column(width=2 * digits + 1, no_wrap=True, justify="right")
    line.add_column()
    line.add_row(Text(span, _ASIDE), Text(phase.words))
    return line


def _table(
    schedule: Schedule, rounds: Sequence[Round], findings: Sequence[Finding], width: int
) -> Table:
    """A row a round and a column a rank, as many of either as there is room for.

    Rounds in which something is wrong are among them.
    """
    numbers = list(range(len(rounds)))
    if len(numbers) > _FIRST_ROUNDS + _LAST_ROUNDS:
        wrong = {finding.round for finding in findings} & set(numbers)
        ends = {*numbers[:_FIRST_ROUNDS], *numbers[-_LAST_ROUNDS:]}
        numbers = sorted(ends | wrong)
    rows = {number: list(_cells(schedule, rounds, number, findings)) for number in numbers}
    columns = _columns_that_fit(rows, schedule.ranks, width)
    cut = columns < schedule.ranks
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("round", justify="right", no_wrap=True)
    for rank in range(columns):
        table.add_column(f"rank {rank}" if columns < 2 else f"r{rank}", no_wrap=True)
    if cut:
        table.add_column("…", no_wrap=True)
    table.add_column("busy", justify="right", no_wrap=True)
    for before, number in zip([0, *numbers], numbers, strict=False):
        if number > before + 1:
            table.add_row("⋮", *["⋮"] * (columns + cut), "", style=_ASIDE)
        busy = f"{100 * busy_ports(rounds[number], schedule.ranks):.0f} %"
        table.add_row(str(number), *rows[number][:columns], *["…"] * cut, busy)
    return table


def _cells(
    schedule: Schedule, rounds: Sequence[Round], number: int, findings: Sequence[Finding]
) -> Iterator[Text]:
    """What each rank sends in a round, a line for each transfer; ✗ before what is wrong."""
    here = [finding for finding in findings if finding.round == number]
    transfers = rounds[number]
    for rank in range(schedule.ranks):
        lines = []
        for row in transfers[transfers["src"] == rank]:
            wrong = any(touches(row, finding) for finding in here)
            style = _WRONG if wrong else _REDUCED if row["reduce"] else _COPIED
            lines.append(Text("✗" * wrong + cell(schedule, row), style))
        yield Text("\n").join(lines) if lines else Text("·", _ASIDE)


def touches(row: Round, finding: Finding) -> bool:
    """Whether a transfer reads or writes the slot that a finding of its round is about."""
    return any(
        row[end] == finding.rank and row[start] <= finding.chunk < row[start] + row["count"]
        for end, start in (("dst", "into"), ("src", "first"))
    )


def _columns_that_fit(rows: Mapping[int, Sequence[Text]], ranks: int, width: int) -> int:
    def taken(rank: int) -> int:
        lines = [line for row in rows.values() for line in row[rank].plain.split("\n")]
        return 1 + max(3, *map(len, lines))

    left = width - len("round") - len(" 100 %")
    widths = list(_running_sum(taken(rank) for rank in range(ranks)))
    if widths[-1] <= left:
        return ranks
    return max(1, sum(total <= left - len(" …") for total in widths))


def _running_sum(numbers: Iterator[int]) -> Iterator[int]:
    total = 0
    for number in numbers:
        total += number
        yield total


def _key(told: Sequence[Phase]) -> str:
    """What the signs mean that were used."""
    key = (
        "→1 c7+ sends chunk 7 to rank 1, which adds it to its own; without + it keeps it. "
        "busy: ports in use, one in and one out a rank."
    )
    if told:
        key += " r: the rank that sends, t: the round; what exceeds the last goes on at 0."
    return key
