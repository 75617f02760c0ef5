"""The house in order: short functions, no imports in circles, layers that hold."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import steptime

SOURCE = Path(steptime.__file__).parent
LONGEST = 60
FILES = sorted(SOURCE.rglob("*.py"))


def modules() -> dict[str, Path]:
    """The files of the package by the names under which they are imported."""
    names = {
        path: ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in FILES
    }
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path.relative_to(SOURCE)} {one.name}"
        for path in FILES
        for one in functions(parsed(path))
        if one.end_lineno is not None and one.end_lineno - one.lineno + 1 > LONGEST
    }
    assert long == set()


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """What a module imports of ours, itself or in its functions; not what only hints need."""
    found = set()
    tree = parsed(path)
    hints = [
        node
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    ]
    for node in set(ast.walk(tree)) - set(hints):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            of_module = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
            found |= of_module or {node.module} & known.keys()
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known.keys()
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or none; packages are what they export."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(sorted(graph[start])))]
        while stack:
            module, following = stack[-1]
            if module not in path:
                path.append(module)
            other = next(following, None)
            if other is None:
                done.add(module)
                path.pop()
                stack.pop()
            elif other in path:
                return [*path[path.index(other) :], other]
            elif other not in done:
                stack.append((other, iter(sorted(graph[other]))))
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: imported(path, known) - {name} for name, path in known.items()}
    for name, path in known.items():
        if path.name == "__init__.py":  # a package gathers its modules, which may import its others
            graph[name] = {other for other in graph[name] if not other.startswith(f"{name}.")}
    assert circle(graph) == []


def test_files_of_tests_have_names_of_their_own() -> None:
    """Where two have one name, ranks that a test starts import the other."""
    found = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in found.items() if count > 1] == []


@pytest.mark.timeout(300)
def test_packages_import_from_lower_layers_only() -> None:
    root = SOURCE.parent.parent
    if not (root / "pyproject.toml").exists():
        pytest.skip("the layers are written down in a checkout's pyproject.toml")
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=root, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


OWN_READS = {
    "api/rank.py": "what the launcher left open",
    "api/running.py": "what its ranks return",
    "backend/host/process.py": "the kernel",
    "backend/host/segment.py": "the backend's own shared memory",
    "backend/host/waits.py": "the backend's own shared memory",
    "world/interfaces.py": "the kernel",
    "backend/reasons.py": "what the group's ranks tell each other",
    "backend/host/discovery.py": "what the group's ranks tell each other",
    "check/locks.py": "the kernel",
    "check/observe/lines.py": "the kernel",
    "check/observe/stacks.py": "what it writes itself",
    "check/processes.py": "what the job's ranks write, a piece at a time, and the kernel",
    "cli/printing.py": "nothing but /dev/null",
    "cluster/device_files.py": "devices that are shipped",
    "cluster/files.py": "presets that are shipped",
    "data/folder.py": "nothing: it locks a folder of its own",
    "discovery.py": "modules that are shipped",
    "emulate/ceiling.py": "what its own processes tell",
    "emulate/emulate.py": "what the emulated cluster tells",
    "emulate/namespaces.py": "what its own processes tell",
    "emulate/tcp.py": "the kernel",
    "emulate/told.py": "nothing: it writes a file of its own",
    "emulated.py": "what the emulated cluster tells",
    "host_memory.py": "the kernel",
    "learn/source.py": "lessons that are shipped",
    "launch/function.py": "what its ranks left open",
    "launch/fork_server.py": "what the launcher asks for, and the program that it names",
    "launch/forks.py": "what its fork server tells",
    "launch/job.py": "what its ranks tell",
    "launch/mailbox.py": "what its ranks tell",
    "launch/mpi.py": "what its ranks print",
    "runs/environment.py": "the kernel",
    "pickles.py": "what it made bytes of itself",
    "points/identity.py": "its own source",
    "record/events.py": "what it writes itself",
    "report/packed.py": "plotly.js, which is installed",
    "runs/load.py": "the kernel",
    "simulate/nccl/constants.py": "constants that are shipped",
    "submit/follow.py": "what a job prints, a piece at a time",
    "topo/machine.py": "the kernel",
    "train/hardware.py": "the kernel",
    "train/keeping/folders.py": "nothing: it waits until a folder is on its disk",
    "train/keeping/goodput.py": "the kernel",
    "train/keeping/state_file.py": "nothing: it writes a file in a folder of its own",
    "train/llmc.py": "mapped, of a size that its header asks for",
    "train/safetensors.py": "mapped, of a size that its header asks for",
    "train/shards.py": "mapped, of a size that its header asks for",
    "predict/expected.py": "errors that are shipped",
    "predict/software/software.py": "parameters that are shipped",
    "workloads/models/named.py": "presets that are shipped",
    "workloads/presets.py": "presets that are shipped",
    "world/alignment.py": "the kernel",
    "world/baton.py": "a FIFO of its own, a byte at a time",
    "world/rendezvous.py": "the kernel, and a file of one's own",
}
"""The files that read by themselves, and what, which nobody else can have written."""

READERS = re.compile(
    r"open|memmap|ZipFile|.*\.(open|read_text|read_bytes|fromstring|memmap|fromfile|genfromtxt"
    r"|loadtxt|read_array|decompress|iterparse)|(json|pickle|tomllib|np|torch|marshal)\.loads?"
)
"""Calls that read a file or parse what came from one."""


def reads(tree: ast.AST) -> bool:
    """Whether code has such a call."""
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(READERS.fullmatch(call) for call in calls)


def test_files_from_elsewhere_are_read_by_the_one_reader() -> None:
    found = {str(path.relative_to(SOURCE)) for path in FILES if reads(parsed(path))}
    assert found - {"files.py"} == OWN_READS.keys()
