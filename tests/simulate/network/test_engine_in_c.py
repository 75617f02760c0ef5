"""The engine in C: it has the fields that Python has, and stays within the arrays it is given."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from simulate.networks import star
from steptime.collectives import TRANSFER
from steptime.simulate import queues, streams
from steptime.simulate.network import _engine, state
from steptime.simulate.network.storage import empty_network
from steptime.simulate.network.unshared import at_first
from steptime.timeline import Phase

SOURCES = Path(streams.__file__).parent / "engine"
STRUCTS = {
    "flow": state.FLOW,
    "move": state.MOVE,
    "link": state.LINK,
    "part": state.PART,
    "owner": state.OWNER,
    "event": state.EVENT,
    "instant": state.INSTANT,
    "kept": state.KEPT,
    "ended": state.ENDED,
    "counts": state.COUNTS,
    "task": streams.TASK,
    "transfer": TRANSFER,
}
NUMBERS = {
    **{
        name: getattr(state, name)
        for name in (
            *("NONE", "BINS", "INSTANTS", "NODE", "WAITING", "LATENT", "FLOWING"),
            *("QUIET", "DONE", "ROUNDS", "ROOM", "UNREAD", "FULL"),
        )
    },
    **{name: getattr(queues, name) for name in ("COMPUTE", "WAIT", "COMMUNICATE")},
}
PHASES = {
    "COMPUTING": Phase.COMPUTE,
    "COMMUNICATING": Phase.COMMUNICATION,
    "UPDATING": Phase.UPDATE,
    "WAITING": Phase.WAIT,
}
COMPILER = shutil.which("cc") or ""
needs_compiler = pytest.mark.skipif(not COMPILER, reason="needs a C compiler")


def printed_by(folder: Path, headers: str, lines: list[str]) -> list[str]:
    """What a program in C prints that knows the engine's sources, line by line."""
    source, program = folder / "told.c", folder / "told"
    body = "\n".join(lines)
    source.write_text(f"{headers}\nint main(void) {{\n{body}\nreturn 0;\n}}\n")
    subprocess.run([COMPILER, "-I", SOURCES, source, "-o", program], check=True, timeout=600)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()


@needs_compiler
def test_structs_have_the_fields_of_the_arrays(tmp_path: Path) -> None:
    headers = '#include "rounds.h"\n#include "streams.h"\n#include <stddef.h>\n#include <stdio.h>'
    lines, expected = [], []
    for struct, dtype in STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {struct}));')
        expected.append(str(dtype.itemsize))
        assert dtype.fields is not None
        for name, (_, offset, *_) in dtype.fields.items():
            lines.append(f'printf("%zu\\n", offsetof(struct {struct}, {name}));')
            expected.append(str(offset))
    assert printed_by(tmp_path, headers, lines) == expected


@needs_compiler
def test_numbers_mean_the_same_in_both(tmp_path: Path) -> None:
    headers = '#include "streams.h"\n#include <stdio.h>'
    lines = [f'printf("%d\\n", {name});' for name in NUMBERS]
    assert printed_by(tmp_path, headers, lines) == [str(value) for value in NUMBERS.values()]
    headers = '#include "division.c"\n#include <stdio.h>'
    lines = [f'printf("%d\\n", {name});' for name in PHASES]
    assert printed_by(tmp_path, headers, lines) == [str(int(value)) for value in PHASES.values()]


def test_an_array_of_another_kind_is_refused() -> None:
    """Nothing is done with the rest then."""
    free = at_first(np.zeros(2), 1)
    moves = state.Moves(np.zeros(0, state.MOVE), np.zeros((0, 1), np.int32))
    for wrong, said in (
        (free._replace(busy=np.zeros(2, np.float32)), "items of 4 bytes, not of 8"),
        (free._replace(until=np.zeros((1, 1, 1))), "of 3 dimensions"),
        (free[:-1], "a tuple of 4 arrays"),
        (list(free), "expected|tuple"),
    ):
        with pytest.raises((TypeError, SystemError), match=said):
            _engine.follow(network(), moves, wrong, False)
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        _engine.follow(network(), moves, free._replace(busy=np.zeros(4)[::2]), False)
    with pytest.raises(IndexError):
        _engine.follow(network(), moves)
    assert _engine.follow(network(), moves, free, False) == 1


def network() -> state.Network:
    return empty_network(star(2), keep=False)


def test_without_it_a_command_says_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['steptime.simulate.network._engine'] = None\n"
        "from steptime.cli import main\n"
        "sys.argv = ['steptime', 'simulate', 'gpt2-124M', '--cluster', 'dgx-h100']\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert re.fullmatch(r"steptime: .*install a C compiler.*\n", done.stderr)


WATCHED = """
import importlib.util as util
import sys

name = "steptime.simulate.network._engine"
spec = util.spec_from_file_location(name, sys.argv[1])
sys.modules[name] = util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])

import numpy as np

import steptime as st
from steptime.collectives import algorithm_named, schedule
from steptime.simulate.network.simulator import NetworkSimulator

for fidelity in ("message", "collective"):
    for axes in ({}, {"strategy": "sharded"}, {"pipeline": 2, "tensor": 2, "micro_batches": 4}):
        run = st.simulate("gpt2-124M", cluster="dgx-a100-pod", ranks=16, fidelity=fidelity, **axes)
        print(round(1e6 * run.step_s))
drawn = np.random.default_rng(0)
for keep in (False, True):
    network = NetworkSimulator(st.cluster("office-10gbe"), keep_messages=keep)
    token = network.begin(schedule(algorithm_named("all_reduce", "ring"), 8), np.arange(8), 1 << 20)
    for rank in range(8):
        network.enter(token, rank, 0.001 * rank)
    src = drawn.integers(0, 8, 500)
    network.send_all(src, (src + 1) % 8, drawn.integers(0, 1 << 20, 500), drawn.random(500) / 100)
    network.advance(0.005)
    print(network.link_series.nbytes.sum() > 0, network.finish().size)
"""


@pytest.mark.slow
@needs_compiler
def test_it_stays_within_its_arrays(tmp_path: Path) -> None:
    """As AddressSanitizer and UBSan see it, which stop at the first thing that is undefined."""
    runtime = subprocess.run(
        [COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the compiler has no AddressSanitizer")
    module, script = tmp_path / "_engine.so", tmp_path / "watched.py"
    flags = ("-g", "-O1", "-fPIC", "-shared", "-fsanitize=address,undefined", "-std=c11")
    flags += ("-fno-sanitize-recover=all", "-ffp-contract=off", "-fvisibility=hidden")
    include = sysconfig.get_path("include")
    sources = sorted(SOURCES.glob("*.c"))
    subprocess.run([COMPILER, *flags, "-I", include, *sources, "-o", module], check=True)
    script.write_text(WATCHED)
    answers = []
    for path, environ in (
        (
            module,
            {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        ),
        (_engine.__file__, {}),
    ):
        done = subprocess.run(
            [sys.executable, str(script), str(path)],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    assert len(answers[0].splitlines()) == 8
