"""A strict reader of Paraver traces: every line by the grammar, every label resolved."""

import re
from dataclasses import dataclass
from pathlib import Path

_HEADER = re.compile(
    r"#Paraver \(\d\d/\d\d/\d{4} at \d\d:\d\d\):(?P<time>\d+)_ns:(?P<nodes>\d+)\((?P<cpus>[\d,]+)\)"
    r":1:(?P<tasks>\d+)\((?P<threads>[\d:,]+)\),(?P<communicators>\d+)"
)
_RECORD = {
    "1": re.compile(r"1(:\d+){7}"),
    "2": re.compile(r"2(:\d+){5}((:\d+){2})+"),
    "3": re.compile(r"3(:\d+){14}"),
}
_LARGEST_LABELLED = 2**31 - 1


@dataclass(frozen=True)
class ParaverTrace:
    """What the three files say; ``threads``: how many each task has, and on which node."""

    end: int
    cpus: list[int]
    threads: list[tuple[int, int]]
    states: list[tuple[int, ...]]
    events: list[tuple[int, ...]]
    messages: list[tuple[int, ...]]
    state_names: dict[int, str]
    values: dict[int, dict[int, str]]
    rows: dict[str, list[str]]


def read_paraver(stem: Path) -> ParaverTrace:
    """Read NAME.prv, .pcf and .row; whatever breaks a rule fails an assertion."""
    lines = stem.with_suffix(".prv").read_text().split("\n")
    assert lines.pop() == ""
    header = _HEADER.fullmatch(lines[0])
    assert header, lines[0]
    cpus = [int(n) for n in header["cpus"].split(",")]
    assert len(cpus) == int(header["nodes"])
    threads = [tuple(map(int, one.split(":"))) for one in header["threads"].split(",")]
    assert len(threads) == int(header["tasks"])
    assert all(count >= 1 and 1 <= node <= len(cpus) for count, node in threads)
    communicators = int(header["communicators"])
    for line in lines[1 : 1 + communicators]:
        kind, appl, _, size, *tasks = line.split(":")
        assert (kind, appl, int(size)) == ("c", "1", len(tasks))
        assert all(1 <= int(task) <= len(threads) for task in tasks)
    found: dict[str, list[tuple[int, ...]]] = {"1": [], "2": [], "3": []}
    order = []
    end = int(header["time"])
    for line in lines[1 + communicators :]:
        assert _RECORD[line[0]].fullmatch(line), line
        record = tuple(map(int, line.split(":")))
        _check_object(record[1:5], threads)
        if line[0] == "1":
            assert 0 <= record[5] < record[6] <= end, line
        elif line[0] == "2":
            assert record[5] <= end, line
        else:
            _check_object(record[7:11], threads)
            assert max(record[5], record[6], record[11], record[12]) <= end, line
            assert record[5] <= record[6], line
            assert record[11] <= record[12], line
        order.append((record[5], record[0]))
        found[line[0]].append(record)
    assert order == sorted(order)
    state_names, values = _labels(stem.with_suffix(".pcf").read_text())
    assert {kind for event in found["2"] for kind in event[6::2]} <= values.keys()
    rows = _rows(stem.with_suffix(".row").read_text())
    assert len(rows["THREAD"]) == sum(count for count, _ in threads)
    assert len(rows["NODE"]) == len(cpus)
    assert len(rows["CPU"]) == sum(cpus)
    return ParaverTrace(
        end, cpus, threads, found["1"], found["2"], found["3"], state_names, values, rows
    )


def _check_object(who: tuple[int, ...], threads: list[tuple[int, ...]]) -> None:
    cpu, appl, task, thread = who
    assert (cpu, appl) == (0, 1)
    assert 1 <= task <= len(threads)
    assert 1 <= thread <= threads[task - 1][0]


def _labels(text: str) -> tuple[dict[int, str], dict[int, dict[int, str]]]:
    states: dict[int, str] = {}
    colours: dict[int, str] = {}
    values: dict[int, dict[int, str]] = {}
    section, types = "", []
    for line in text.splitlines():
        assert line == line.strip() or section in ("DEFAULT_OPTIONS", "DEFAULT_SEMANTIC")
        assert line or not line.isspace()
        if re.fullmatch(r"[A-Z_]+", line):
            section = line
            types = [] if line == "EVENT_TYPE" else types
        elif not line:
            section = section if section != "VALUES" else ""
        elif section == "STATES":
            number, label = line.split(maxsplit=1)
            states[int(number)] = label
        elif section == "STATES_COLOR":
            number, colour = line.split()
            assert re.fullmatch(r"\{\d+,\d+,\d+\}", colour)
            colours[int(number)] = colour
        elif section == "EVENT_TYPE":
            _, kind, label = line.split(maxsplit=2)
            assert int(kind) <= _LARGEST_LABELLED
            assert label
            types.append(int(kind))
            values[int(kind)] = {}
        elif section == "VALUES":
            number, label = line.split(maxsplit=1)
            assert 0 <= int(number) <= _LARGEST_LABELLED
            for kind in types:
                values[kind][int(number)] = label
    assert states.keys() == colours.keys()
    return states, values


def _rows(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        head = re.fullmatch(r"LEVEL (CPU|NODE|TASK|THREAD) SIZE (\d+)", line)
        assert head, line
        found[head[1]] = [next(lines) for _ in range(int(head[2]))]
        assert all(found[head[1]])
        assert next(lines) == ""
    return found
