"""Events in C and in Python: the same rows, whoever writes them."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorded_scripts as scripts
from recorded import record
from steptime.record.events import Kind, Log
from steptime.record.read import ProcessLog, read_logs
from steptime.record.rows import EVENT, PythonRows, in_c, recorder

pytestmark = pytest.mark.skipif(not in_c(), reason="no compiler was there")


def _written(kind: Callable[[Callable[[int], None]], Any], file: Path) -> list[Any]:
    """What the same calls leave behind."""
    lost: list[int] = []
    rows = kind(lost.append)
    with file.open("w+b") as made:
        made.truncate(4 * EVENT.itemsize)
        rows.begin(made.fileno(), 4)
        rows.write(1, 10)
        rows.write(2, 11, 12, 13, 3, 1, 60_000, -2, 4, 5, 1 << 40, -(1 << 50))
        rows.write(kind=3, issued=20, peer=7, nbytes=9, address=8, signature=2, site=1)
        rows.end(0, 30)
        rows.end(0, 31)  # who says it first is right
        rows.returned(0, 29)
        rows.waited(2, 40, 41)
        rows.waited_at_once(1, 50, 51)
        assert [rows.issued(number) for number in range(3)] == [10, 11, 20]
        assert [rows.write(4, 60 + number) for number in range(3)] == [3, 4, 5]
        assert lost == [4, 5]
        rows.end(5, 70)  # of none that was kept
        made.truncate(8 * EVENT.itemsize)
        rows.extend(8)
        rows.write(5, 80)
    return list(np.fromfile(file, EVENT).tolist())


def test_rows_in_c_are_those_in_python(tmp_path: Path) -> None:
    in_python = _written(PythonRows, tmp_path / "python")
    assert _written(recorder.Rows, tmp_path / "c") == in_python
    assert in_python[6][0] == 5  # behind the two that were lost
    assert in_python[0][EVENT.names.index("ended")] == 30


def test_threads_write_apart_while_the_file_grows(tmp_path: Path) -> None:
    log, each = Log(tmp_path), 30_000

    def write(mine: int) -> None:
        for number in range(each):
            event = log.rows.write(Kind.CALL, 1 + number, peer=mine)
            log.rows.end(event, 2 + number)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = np.fromfile(log.path, EVENT)[: 4 * each]
    assert (events["ended"] == events["issued"] + 1).all()
    for mine in range(4):
        own = events[events["peer"] == mine]
        assert own["issued"].tolist() == list(range(1, 1 + each))
        assert len(np.unique(own["thread"])) == 1
    assert len(np.unique(events["thread"])) == 4


def _calls(log: ProcessLog) -> list[tuple[Any, ...]]:
    """All that is known of a rank's calls, but for when they were made and where tensors lay."""
    sites = {0: None, **log.sites}
    signatures = {0: None, **log.signatures}
    return [
        (
            *(call[name] for name in ("kind", "operation", "flags", "peer", "bytes")),
            log.groups[int(call["group"])].ranks,
            sites[int(call["site"])],
            signatures[int(call["signature"])],
            bool(call["address"]),
        )
        for call in log.calls
    ]


def _in_order(log: ProcessLog) -> bool:
    calls = log.calls
    waited = calls[calls["wait_end"] > 0]
    return bool(
        (calls["issued"] > 0).all()
        and (calls["returned"] >= calls["issued"]).all()
        and (calls["ended"] >= calls["issued"]).all()
        and (waited["wait_end"] >= waited["wait_begin"]).all()
        and (waited["wait_begin"] >= waited["issued"]).all()
    )


@pytest.mark.parametrize("script", [pytest.param("PATTERNS", marks=pytest.mark.slow), "MIXED"])
def test_a_script_is_recorded_alike_in_python_in_c_and_in_cpp(tmp_path: Path, script: str) -> None:
    found = []
    for kernel in ("c", "python", "cpp"):
        folder = tmp_path / kernel
        folder.mkdir()
        done = record(folder, getattr(scripts, script), environ={"STEPTIME_KERNEL": kernel})
        assert done.code == 0, done.err
        logs = read_logs(folder / "run")
        assert all(map(_in_order, logs))
        for log in logs:
            places = {site: (Path(site.file).name, site.line) for site in log.sites.values()}
            found.append([tuple(places.get(one, one) for one in call) for call in _calls(log)])
    assert found[:2] == found[2:4] == found[4:]
    assert all(found)
