"""Builds the kernel in C++ for the torch that is installed, beside the package."""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("kernel.cpp")
_FLAGS = ("-std=c++20", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden")
_LIBRARIES = ("c10", "torch_cpu", "torch_python")


def build(target: Path) -> None:
    """Compile the module into a file; CalledProcessError or OSError where that cannot be."""
    of_torch = Path(torch.__file__).parent
    includes = [of_torch / "include", of_torch / "include" / "torch" / "csrc" / "api" / "include"]
    subprocess.run(
        [
            *shlex.split(os.environ.get("CXX", "c++")),
            *_FLAGS,
            *(f"-I{folder}" for folder in [*includes, sysconfig.get_path("include")]),
            str(_SOURCE),
            *("-o", str(target), f"-L{of_torch / 'lib'}"),
            *(f"-l{name}" for name in _LIBRARIES),
        ],
        check=True,
    )


def main() -> None:
    """Build it, or say in one sentence what stops that: calls are recorded without it, too."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = _SOURCE.parents[1] / f"_dispatch{suffix}"
    begun = target.with_name(f".{target.name}.{os.getpid()}")  # whole, or not there
    try:
        build(begun)
        begun.replace(target)
    except (OSError, subprocess.CalledProcessError) as error:
        begun.unlink(missing_ok=True)
        sys.exit(
            f"steptime: {target.name} was not built ({error}), and calls are recorded through "
            "Python: install a C++20 compiler and Python's headers to have it"
        )
    print(f"built {target.name} for torch {torch.__version__}")


if __name__ == "__main__":
    main()
