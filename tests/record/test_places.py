"""Places of calls that an installed package makes for a script: its line, and the script's."""

import json
from pathlib import Path

import pytest

from forked import forked
from recorded import record
from steptime.check.finding import CallSite
from steptime.check.stacks import script_place
from steptime.record.packages import hands_on, place_and_via
from steptime.record.read import Site, read_logs
from steptime.record.rows import in_c

PACKAGE = {
    "engine.py": """
from . import comm
class Engine:
    @comm.timed
    def step(self, tensor):
        comm.all_reduce(tensor)
    def clip(self, tensor):
        comm.all_reduce(tensor)
""",
    "comm.py": """
from functools import wraps
import torch.distributed as dist
def timed(function):
    @wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper
@timed
def all_reduce(tensor):
    work = dist.all_reduce(tensor, async_op=True)
    timed(work.wait)()
    assert (work.wait.__name__, work.wait.__qualname__.split(".")[-1]) == ("wait", "wait")
""",
    "__init__.py": "",
}
SCRIPT = """
import sys
sys.path.insert(0, "site-packages")
import torch
import torch.distributed as dist
from framework import comm
from framework.engine import Engine
dist.init_process_group("gloo")
engine, ones = Engine(), torch.ones(8)
for step in range(3):
    engine.step(ones)
engine.clip(ones)
comm.all_reduce(ones)
if dist.get_rank() == 1 and sys.argv[1:]:
    comm.all_reduce(ones)
else:
    engine.step(torch.ones(9))
"""


def _line(code: str, text: str) -> int:
    return 1 + [line.strip() for line in code.splitlines()].index(text)


def _installed(folder: Path) -> None:
    package = folder / "site-packages" / "framework"
    package.mkdir(parents=True)
    for name, content in PACKAGE.items():
        (package / name).write_text(content)


@pytest.mark.parametrize("kernel", ["c", "python"])
def test_a_call_of_a_package_is_told_at_the_line_of_the_script(tmp_path: Path, kernel: str) -> None:
    if kernel == "c" and not in_c():
        pytest.skip("no compiler was there")
    _installed(tmp_path)
    done = record(tmp_path, SCRIPT, environ={"STEPTIME_KERNEL": kernel})
    assert done.code == 0, done.err
    script, package = tmp_path / "script.py", tmp_path / "site-packages" / "framework"
    step, clip = _line(SCRIPT, "engine.step(ones)"), _line(SCRIPT, "engine.clip(ones)")
    direct = _line(SCRIPT, "comm.all_reduce(ones)")
    inside = _line(PACKAGE["engine.py"], "comm.all_reduce(tensor)")
    for log in read_logs(tmp_path / "run"):
        sites = [log.sites[int(call["site"])] for call in log.calls]
        assert [(Path(s.file).name, s.line) for s in sites[:5]] == [
            *[("script.py", step)] * 3,
            ("script.py", clip),
            ("script.py", direct),
        ]
        vias = [one.via.removeprefix(f"{package.resolve()}/") for one in sites[:5]]
        assert vias == [f"engine.py:{inside}"] * 3 + [f"engine.py:{inside + 2}", ""]
        assert str(sites[0]) == f"script.py:{step} via engine.py:{inside}"
        assert Path(sites[0].file) == script


def test_a_fault_within_a_package_is_told_at_the_line_of_the_script(tmp_path: Path) -> None:
    _installed(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ("check", "--ranks", "2", "--json", "--out", "run", "script.py", "differ")
    (finding,) = json.loads(forked(*words, folder=tmp_path).out.splitlines()[-1])["findings"]
    assert finding["kind"] == "mismatch"
    assert [(one["rank"], one["line"]) for one in finding["places"]] == [
        (0, _line(SCRIPT, "engine.step(torch.ones(9))")),
        (1, 1 + _line(SCRIPT, "if dist.get_rank() == 1 and sys.argv[1:]:")),
    ]
    inside = _line(PACKAGE["engine.py"], "comm.all_reduce(tensor)")
    assert Path(finding["places"][0]["via"]).name == f"engine.py:{inside}"
    assert finding["places"][1]["via"] == ""
    assert f" via engine.py:{inside}" in finding["what"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"via {finding['places'][0]['via']}</td>" in page


def test_what_decides_to_call_is_told_and_not_what_hands_it_on() -> None:
    def chosen(*frames: tuple[str, str]) -> object:
        return place_and_via(frames, lambda frame: frame)

    comm, wrapper = (
        ("/p/site-packages/f/comm.py", "all_reduce"),
        ("/p/site-packages/f/t.py", "wrapper"),
    )
    step, main = ("/p/dist-packages/f/engine.py", "step"), ("/job/train.py", "main")
    assert chosen(comm, wrapper, step, wrapper, main) == (main, step)
    assert chosen(comm, wrapper, main) == (main, None)
    assert chosen(main, step) == (main, None)
    assert chosen(comm, step, wrapper) == (step, None)
    assert chosen(comm, wrapper) == (comm, None)
    assert chosen() is None


@pytest.mark.parametrize(
    "name",
    ["all_reduce", "iall_gather", "_dist_allgather_fn", "reduce_scatter_tensor", "log_wrapper"],
)
def test_functions_that_hand_a_call_on(name: str) -> None:
    assert hands_on(name)


@pytest.mark.parametrize("name", ["step", "reduce_gradients", "gather_params", "broadcast_from_0"])
def test_functions_that_decide(name: str) -> None:
    assert not hands_on(name)


def test_a_stack_tells_the_same_place_as_a_call() -> None:
    lib = "/venv/lib/python3.11/site-packages"
    frames = [
        (f"{lib}/torch/distributed/distributed_c10d.py", 3252, "all_reduce"),
        (f"{lib}/f/comm.py", 710, "all_reduce"),
        (f"{lib}/f/engine.py", 19, "step"),
        ("/job/train.py", 18, "<module>"),
    ]
    lines = "".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in frames)
    stack = f"Current thread 0x{1:016x} (most recent call first):\n{lines}"
    assert script_place(stack, 2) == CallSite(2, "/job/train.py", 18, f"{lib}/f/engine.py:19")
    assert str(Site("/job/train.py", 18, "main")) == "train.py:18"
    of_package = Site("/job/train.py", 18, "main", f"{lib}/f/distributed/__init__.py:133")
    assert str(of_package) == "train.py:18 via distributed/__init__.py:133"
