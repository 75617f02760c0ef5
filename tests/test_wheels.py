"""The wheels: one a platform for all Pythons, with all of the C, built for that platform."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = (
    "steptime/backend/host/_kernel.abi3.so",
    "steptime/record/_recorder.abi3.so",
    "steptime/simulate/network/_engine.abi3.so",
)
SOURCES = ("steptime/record/dispatch/kernel.cpp", "steptime/record/recorder/event.h")
"""What is built where torch is, by ``python -m steptime.record.dispatch``."""

MACHINES = {"x86_64": 62, "aarch64": 183}
"""What ELF calls a machine, at byte 18 of a file."""
LOAD = """
import importlib.util as util, sys
for path in sys.argv[1:]:
    spec = util.spec_from_file_location(path.split("/")[-1].split(".")[0], path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "Group"):
        try:
            module.Group(rank=9, ranks=2, looks=1, words=0, slots=0, slot_bytes=0)
        except ValueError as error:
            print(error)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the recipe is for x86-64"),
    pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-gcc"), reason="needs a cross compiler"),
]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each platform, which abi3audit has looked through."""
    folder = tmp_path_factory.mktemp("wheels")
    environ = os.environ | {"BIN": str(Path(sys.executable).parent)}
    subprocess.run([ROOT / ".ci" / "wheels", folder], env=environ, check=True, timeout=600)
    return {one.stem.split("_", 3)[-1]: one for one in folder.glob("*.whl")}


def test_each_is_for_one_platform_and_all_pythons(wheels) -> None:
    assert wheels.keys() == MACHINES.keys()
    for platform, wheel in wheels.items():
        assert "-cp311-abi3-manylinux_2_" in wheel.name
        assert int(wheel.name.split("manylinux_2_")[1].split("_")[0]) <= 28  # as PyTorch's own
        with zipfile.ZipFile(wheel) as files:
            assert "steptime.pth" in files.namelist()
            assert {*SOURCES} <= {*files.namelist()}
            for module in MODULES:
                head = files.read(module)[:20]
                assert head[:4] == b"\x7fELF"
                assert int.from_bytes(head[18:], "little") == MACHINES[platform], module


def test_other_pythons_load_its_modules(wheels, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheels["x86_64"]) as files:
        paths = [files.extract(module, tmp_path) for module in MODULES]
    found = [shutil.which(f"python3.{minor}") for minor in range(11, 16)]
    for python in [sys.executable, *filter(None, found)]:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode:
            continue  # a name for a Python that is not chosen here
        told = subprocess.run([python, "-c", LOAD, *paths], capture_output=True, text=True)
        assert (told.stdout, told.stderr) == ("a group has up to 1024 ranks, not 2\n", "")
