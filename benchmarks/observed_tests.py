"""PyTorch's own tests with all that check observes, beside the same tests without.

    python benchmarks/observed_tests.py DIR [FILE ...] [--limit 900]

DIR is the folder ``test`` of PyTorch's source, of about the installed torch's version:
``git clone --depth 1 --branch v2.13.0``, or Debian's ``apt-get source pytorch``. Each file is run
twice by pytest, plainly and with a recording and its observers in every process that it starts.
What passes plainly is to pass again, and no observer is to break off: a test that does not pass,
and what an observer says that does, are printed. Where no files are named they are those of FILES.
Needs expecttest.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from steptime.record.start import OBSERVERS_VARIABLE, recording_environment

FILES = (
    "test_optim.py",
    "optim/test_lrscheduler.py",
    "optim/test_swa_utils.py",
    "nn/test_embedding.py",
    "nn/test_lazy_modules.py",
    "nn/test_load_state_dict.py",
    "nn/test_module_hooks.py",
    "nn/test_parametrization.py",
    "test_dataloader.py",
    "test_serialization.py",
    "test_autograd.py",
    "test_nn.py",
    "test_multiprocessing.py",
    "test_fake_tensor.py",
    "distributed/test_distributed_spawn.py",
    "distributed/test_c10d_gloo.py",
    "distributed/test_c10d_object_collectives.py",
    "distributed/test_device_mesh.py",
    "distributed/test_functional_api.py",
    "distributed/optim/test_zero_redundancy_optimizer.py",
    "distributed/_composable/test_replicate.py",
    "distributed/_tensor/test_dtensor.py",
    "distributed/_tensor/test_redistribute.py",
    "distributed/checkpoint/test_file_system_checkpoint_cpu.py",
)
_BROKE_OFF = re.compile(r"steptime check watches no (.*?) in this rank from here on: .*")


@dataclass(frozen=True)
class Ran:
    """What came of a file: the tests that passed, the seconds, and what observers said."""

    passed: frozenset[str]
    seconds: float
    said: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tests", type=Path)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("--limit", type=float, default=900.0)
    options = parser.parse_args()
    print(f"{'':52} plainly observed  seconds")
    for file in options.files:
        path = options.tests.resolve() / file
        if not path.exists():
            print(f"{file:52} is not there")
            continue
        plain = ran(path, os.environ, options.limit)
        with tempfile.TemporaryDirectory() as folder:
            environ = recording_environment(os.environ, Path(folder))
            watched = environ | {OBSERVERS_VARIABLE: "steptime.check.observe"}
            observed = ran(path, watched, options.limit)
        times = f"{plain.seconds:4.0f} {observed.seconds:4.0f}"
        print(f"{file:52} {len(plain.passed):7} {len(observed.passed):8}  {times}", flush=True)
        for test in sorted(plain.passed - observed.passed):
            print(f"  not passed observed: {test}")
        for said in sorted(observed.said):
            print(f"  {said}")


def ran(file: Path, environ: Mapping[str, str], limit: float) -> Ran:
    """Run a file of tests; one that takes longer than ``limit`` seconds is ended."""
    with tempfile.TemporaryDirectory() as folder:
        results, output = Path(folder, "results.xml"), Path(folder, "output")
        paths = [str(file.parent), *filter(None, [environ.get("PYTHONPATH")])]
        given = {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
            "BACKEND": "gloo",
            "WORLD_SIZE": "3",
            "TMPDIR": folder,
            "TEMP_DIR": folder,
        }
        command = [sys.executable, "-m", "pytest", str(file), "-q", "--noconftest"]
        command += ["-c", os.devnull, "-p", "no:cacheprovider", "-rA", f"--junitxml={results}"]
        begun = time.perf_counter()
        with output.open("w") as written:
            process = subprocess.Popen(
                command,
                cwd=file.parent,
                env={**environ, **given},
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                print(f"{file.name} was ended after {limit:.0f} s", file=sys.stderr)
            finally:
                _end(process)
        said = {one[0] for one in _BROKE_OFF.finditer(output.read_text(errors="replace"))}
        passed = _passed(results) if results.exists() else set()
        return Ran(frozenset(passed), time.perf_counter() - begun, frozenset(said))


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of a file's processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _passed(results: Path) -> set[str]:
    cases = ElementTree.parse(results).iter("testcase")  # noqa: S314 - pytest's own, of this moment
    not_passed = {"failure", "error", "skipped"}
    return {
        f"{one.get('classname')}::{one.get('name')}"
        for one in cases
        if not_passed.isdisjoint(child.tag for child in one)
    }


if __name__ == "__main__":
    main()
