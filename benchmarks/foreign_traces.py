"""Sample traces of other projects, read by steptime and counted by a few lines of plain arithmetic.

    python benchmarks/foreign_traces.py CLONES...

CLONES: local clones of facebookresearch/HolisticTraceAnalysis, mlcommons/chakra and
astra-sim/astra-sim, or a folder of them; nothing is downloaded. Each trace file below them is
opened, and what steptime says of it (steps, kernels, calls, their bytes and durations) is held
against a count that shares no code with it: Python's json and sums, and for Chakra's .et a search
for the bytes of an attribute. What steptime refuses is listed with its sentence. Exits with 1 where
a figure differs. Archives (.tgz, .tar.gz) are unpacked to a temporary folder first.
"""

import gzip
import json
import re
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.program import Collective, Program, Recv, Send
from steptime.program.chakra import read_chakra
from steptime.record.traces.chakra_json import is_chakra_json, read_chakra_json
from steptime.record.traces.opening import open_trace
from steptime.timeline import Phase

CLOSE = 1e-6  # relative, of durations: nanoseconds are rounded once
SIZES = {"Float": 4, "Half": 2, "BFloat16": 2, "Double": 8, "Long": 8, "Int": 4, "Byte": 1}
GATHERS = ("_allgather_base", "allgather", "allgather_into_tensor_coalesced")


@dataclass(frozen=True)
class Row:
    """What a file says: by steptime, and by the count of this program."""

    file: str
    what: str
    read: float
    counted: float

    @property
    def same(self) -> bool:
        return abs(self.read - self.counted) <= CLOSE * max(abs(self.counted), 1.0)


def profile_rows(file: Path, events: list[dict[str, Any]]) -> Iterator[Row]:
    """A torch.profiler trace: durations in microseconds."""
    (rank,) = open_trace([file]).ranks
    slices = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in slices if str(event.get("cat", "")).lower() == "kernel"]
    nccl = [event for event in kernels if "nccl" in event["name"].lower()]
    gloo = [event for event in slices if event["name"].startswith("gloo:")]
    marked = {}
    for event in slices:
        if event["name"].startswith("ProfilerStep#") and event.get("cat") == "user_annotation":
            marked.setdefault(event["name"], event["dur"])
    busy = [s for s in rank.spans if s.stream.startswith("stream") and s.phase != Phase.OTHER]
    own = [event for event in kernels if event not in nccl] if len(kernels) < 5000 else None
    if marked:
        length = sum(step.end - step.begin for step in rank.steps) / 1e3
        yield Row(file.name, "steps", len(rank.steps), len(marked))
        yield Row(file.name, "steps us", length, sum(marked.values()))
    yield Row(file.name, "computing kernels", len(busy), len(kernels) - len(nccl))
    if own is not None:
        length = sum(span.end - span.begin for span in busy) / 1e3
        yield Row(file.name, "computing us", length, sum(event["dur"] for event in own))
    ran = nccl or gloo
    if ran:
        length = sum(call.end - call.begin for call in rank.calls) / 1e3
        yield Row(file.name, "calls", len(rank.calls), len(ran))
        yield Row(file.name, "calls us", length, sum(event["dur"] for event in ran))
    if nccl and all("Collective name" in event["args"] for event in nccl):
        yield Row(file.name, "bytes", sum(c.nbytes for c in rank.calls), sum(map(told, nccl)))
    elif gloo and {event["name"] for event in gloo} == {"gloo:all_reduce"}:
        yield Row(file.name, "bytes", sum(c.nbytes for c in rank.calls), sum(map(dims, gloo)))


def told(event: dict[str, Any]) -> int:
    """The bytes of the whole vector of a kernel that says them."""
    args = event["args"]
    share = args["In msg nelems"] * (
        args["Group size"] if args["Collective name"] in GATHERS else 1
    )
    return max(share, args["Out msg nelems"]) * SIZES[args["dtype"]]


def dims(event: dict[str, Any]) -> int:
    """The bytes of gloo's input: of an all_reduce the whole vector."""
    (shape,) = event["args"]["Input Dims"]
    count = 4
    for size in shape:
        count *= size
    return count


def moved(program: Program) -> int:
    """The bytes of the vectors of all calls of all ranks; of a message at its sender."""
    return sum(
        op.nbytes
        for kind in program.class_of.tolist()
        for op in program.lists[kind]
        if isinstance(op, Collective | Send)
    )


def chakra_rows(folder: Path) -> Iterator[Row]:
    """A folder of Chakra traces: nodes and bytes by searching the files for the attribute."""
    program = read_chakra(folder)
    files = sorted(folder.glob("*.et"))
    gathers = "all_gather" in files[0].name
    counted = calls = 0
    for file in files:
        content = file.read_bytes()
        for size, kind in sizes(content):
            calls += 1
            counted += size * (len(files) if gathers else 1) if kind != "COMM_RECV" else 0
    name = f"{folder.parent.name}/{folder.name}"
    ops = [op for kind in program.class_of.tolist() for op in program.lists[kind]]
    found = sum(isinstance(op, Collective | Send | Recv) for op in ops)
    yield Row(name, "ranks", program.ranks, len(files))
    yield Row(name, "calls", found, calls)
    yield Row(name, "bytes", moved(program), counted)


def sizes(content: bytes) -> Iterator[tuple[int, str]]:
    """The number behind each attribute comm_size, and what the name of the node before it says."""
    for found in re.finditer(rb"comm_size[\x48\x68]([\x80-\xff]*[\x00-\x7f])", content):
        value = 0
        for place, byte in enumerate(found[1]):
            value |= (byte & 0x7F) << 7 * place
        before = content[: found.start()]
        receives = before.rfind(b"COMM_RECV") > before.rfind(b"COMM_SEND")
        yield value, "COMM_RECV" if receives else ""


def chakra_json_rows(file: Path) -> Iterator[Row]:
    program, _ = read_chakra_json(file)
    content = json.loads(file.read_bytes())
    if "workload_graph" in content:
        nodes = content["workload_graph"]
        took = sum(op.seconds for op in program.lists[0]) * 1e6  # type: ignore[union-attr, misc]
        yield Row(file.name, "nodes", len(program.lists[0]), len(nodes))
        yield Row(file.name, "us", took, sum(node.get("runtime", 0) for node in nodes))
        return
    calls = [
        node["inputs"]
        for node in content["nodes"]
        if node["name"] == "record_param_comms" and "wait" not in node["inputs"]["values"]
    ]
    counted = sum(4 * 2 * call["shapes"][0][0][0] for call in calls)  # two ranks gather floats
    found = [op for op in program.lists[0] if isinstance(op, Collective)]
    yield Row(file.name, "calls", len(found), len(calls))
    yield Row(file.name, "bytes", sum(op.nbytes for op in found), counted)


def rows_of(file: Path) -> Iterator[Row]:
    if file.suffix == ".et":
        if file.name.endswith(".0.et"):
            yield from chakra_rows(file.parent)
        return
    if is_chakra_json(file):
        yield from chakra_json_rows(file)
        return
    raw = file.read_bytes()
    content = json.loads(gzip.decompress(raw) if file.suffix == ".gz" else raw)
    if isinstance(content, dict) and "traceEvents" in content:
        yield from profile_rows(file, content["traceEvents"])


def files_below(folders: list[Path], unpacked: Path) -> Iterator[Path]:
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            if file.name.endswith((".tgz", ".tar.gz")):
                into = unpacked / file.name
                with tarfile.open(file) as archive:
                    archive.extractall(into, filter="data")
                yield from (path for path in sorted(into.rglob("*")) if path.is_file())
            elif file.name.endswith((".json", ".json.gz", ".et")):
                yield file


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    rows, refused, foreign = [], [], 0
    with tempfile.TemporaryDirectory() as unpacked:
        for file in files_below([Path(word) for word in sys.argv[1:]], Path(unpacked)):
            try:
                found = list(rows_of(file))
            except UsageError as error:
                refused.append(f"{file.name}: {str(error).replace(str(file), file.name)}")
                continue
            except (UnicodeDecodeError, ValueError, KeyError, sqlite3.Error) as error:
                refused.append(f"{file.name}: not counted here, {type(error).__name__}: {error}")
                continue
            foreign += not found
            rows += found
    for row in rows:
        mark = "  " if row.same else "≠ "
        print(f"{mark}{row.file[:46]:46}  {row.what:18}{row.read:>18,.3f}{row.counted:>18,.3f}")
    for sentence in refused:
        print(f"refused: {sentence}")
    wrong = sum(not row.same for row in rows)
    print(f"{len(rows)} figures, {wrong} differ; {len(refused)} refused, {foreign} are no traces")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
