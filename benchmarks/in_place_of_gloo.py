"""What pytorch_tests.py puts into the processes of PyTorch's own tests, which stay as they are.

As an entry point of torch (``torch.backends``) it answers the name ``gloo`` with the backend
steptime; ``torch.distributed`` still calls the group steptime. As a plugin of pytest it leaves out
what is judged already, writes down what comes of each test, and has ranks forked from a process
that has imported torch, since importing it takes each rank longer than most tests.
"""

import functools
import json
import multiprocessing
import os
import re
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

RIVAL, OURS = "gloo", "steptime"
BACKEND, RECORD, GROUPS = "JUDGED_BACKEND", "JUDGED_RECORD", "JUDGED_GROUPS"
"""Variables of the environment: the backend, the record, and a file of as many bytes as groups."""

_IMPORTED_ONCE = [
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.common_fsdp",
    "torch.testing._internal.distributed._tensor.common_dtensor",
    "torch.testing._internal.distributed.distributed_test",
]


def answer_for_gloo() -> None:
    """Have torch.distributed make groups of the judged backend where it is asked for gloo.

    So too where it is asked for none in particular. Each group is counted in the file of groups.
    """
    import torch.distributed.distributed_c10d as c10d

    backend = os.environ.get(BACKEND)
    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def make_judged(size: int, rank: int, ranks: Any, asked: Any, *rest: Any, **more: Any) -> Any:
        given, changes = re.subn(rf"\b(undefined|{RIVAL})\b", str(backend), str(asked))
        if changes:
            import steptime.backend  # noqa: F401 - now, since a test asks what ``import torch`` loads

            with Path(os.environ[GROUPS]).open("a") as groups:
                groups.write(".")
        return make(size, rank, ranks, c10d.Backend(given), *rest, **more)

    if backend:
        c10d._new_process_group_helper = make_judged  # type: ignore[assignment]


def outcomes(record: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last entry of the record for each backend and test."""
    lines = record.read_text().splitlines() if record.exists() else []
    entries = [json.loads(line) for line in lines]
    return {(entry["backend"], entry["test"]): entry for entry in entries}


def note(test: str, outcome: str, seconds: float = 0.0, why: str = "") -> None:
    """Append an entry to the record."""
    entry = {"backend": os.environ[BACKEND], "test": test, "outcome": outcome}
    with Path(os.environ[RECORD]).open("a") as record:
        record.write(json.dumps(entry | {"seconds": round(seconds, 2), "why": why}) + "\n")


# The plugin of pytest


class _Forked(ForkServerProcess):
    """A process with the environment of its maker, as one that is spawned has."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._environ = dict(os.environ)

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environ)
        super().run()


class _ForkContext(ForkServerContext):
    Process = _Forked


def pytest_configure() -> None:
    forking = _ForkContext()
    forking.set_forkserver_preload(_IMPORTED_ONCE)
    get_context = multiprocessing.get_context

    def forking_instead(method: str | None = None) -> Any:
        return forking if method == "spawn" else get_context(method)

    multiprocessing.get_context = forking_instead
    import torch.multiprocessing

    torch.multiprocessing.get_context = forking_instead


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out what is judged already and, of ours, what gloo does not pass."""
    known = {key: entry["outcome"] for key, entry in outcomes(Path(os.environ[RECORD])).items()}
    backend = os.environ[BACKEND]

    def wanted(test: str) -> bool:
        fresh = known.get((backend, test), "started") == "started"  # or broken off
        return fresh and (backend == RIVAL or known.get((RIVAL, test)) == "passed")

    items[:] = [item for item in items if wanted(item.nodeid)]


def pytest_runtest_logstart(nodeid: str) -> None:
    Path(os.environ[GROUPS]).write_text("")
    note(nodeid, "started")


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome; ``idle`` passed without having made a group, so says nothing of one."""
    if report.outcome != "passed":
        note(report.nodeid, report.outcome, report.duration, _reason(report.longreprtext))
    elif report.when == "call":
        made = Path(os.environ[GROUPS]).stat().st_size > 0
        note(report.nodeid, "passed" if made else "idle", report.duration)


def _reason(text: str) -> str:
    """The error that a rank's traceback ends with, or the last line."""
    errors = re.findall(r"^(?:E\s+)?((?:\w+\.)*\w+(?:Error|Exception): .*)$", text, re.MULTILINE)
    ranks = [error for error in errors if "exited with error code" not in error]
    return (ranks or errors or text.strip().splitlines() or [""])[-1][:300]
