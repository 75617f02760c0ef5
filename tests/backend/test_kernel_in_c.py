"""The kernel without Python: under checks of memory, and built for another processor."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = HERE.parents[1] / "src" / "steptime" / "backend" / "kernel"
SOURCES = [
    HERE / "kernel_ranks.c",
    *(
        KERNEL / f"{n}.c"
        for n in ("group", "collectives", "copies", "parts", "exchange", "folds", "channel")
    ),
]
# Checks take four times as long to compile with code that is made faster, and are no fewer without.
CHECKED = ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("gcc", CHECKED, []), id="checked", marks=pytest.mark.slow),
        # An emulator on x86-64 keeps its order of memory: this shows the rest to be right.
        pytest.param(
            ("aarch64-linux-gnu-gcc", ["-O1", "-static"], ["qemu-aarch64"]),
            id="arm64",
            marks=pytest.mark.slow,
        ),
    ],
)
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[str | Path]:
    """The words that start the built program."""
    compiler, options, runner = request.param
    for tool in (compiler, *runner):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} is installed")
    program = tmp_path_factory.mktemp("kernel") / "ranks"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", *options]
    subprocess.run(
        [compiler, *flags, f"-I{KERNEL}", "-o", program, *SOURCES], check=True, timeout=300
    )
    return [*runner, program]


@pytest.mark.parametrize("ranks", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_random_calls_of_processes_are_right(program: list[str | Path], ranks: int) -> None:
    done = subprocess.run(
        [*program, str(ranks), "300"], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
