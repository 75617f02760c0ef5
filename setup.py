"""Installs steptime.pth beside the package, and builds what there is in C where it can.

Both for ``pip install .`` and ``pip install -e .`` alike; all else is in pyproject.toml.

Python runs steptime.pth whenever it starts; it does nothing unless STEPTIME_RECORD is set.
pyproject.toml cannot name a file that belongs beside a package, and of what setuptools copies for
both kinds of installation only headers are free: the file goes as one.

All three need a C compiler and Python's headers. Without them the installation goes on: the kernel
of the backend and the recorder do the same in Python, and what simulates says what it needs.
"""

from pathlib import Path

from setuptools import Command, Extension, setup

STARTUP = Path("src") / "steptime.pth"
PACKAGE = Path("src") / "steptime"

# No NaN is to be signalled and no errno set, so that conversions of half are vectorised; but every
# operation is rounded for itself, as in torch.
FLAGS = [
    "-std=c11",
    "-O3",
    "-fvisibility=hidden",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-ffp-contract=off",
]


class InstallBesidePackage(Command):
    """Puts the file where packages are."""

    user_options = []  # noqa: RUF012

    def initialize_options(self) -> None:
        """Know nothing yet."""
        self.install_dir = None

    def finalize_options(self) -> None:
        """Take the folder of packages as the one to install into."""
        self.set_undefined_options("install", ("install_lib", "install_dir"))

    def run(self) -> None:
        """Copy the file."""
        self.mkpath(self.install_dir)
        self.copy_file(str(STARTUP), self.install_dir)

    def get_inputs(self) -> list[str]:
        """What is copied."""
        return [str(STARTUP)]

    def get_outputs(self) -> list[str]:
        """What is made of it."""
        return [str(Path(self.install_dir) / STARTUP.name)]


def extension(name: str, sources: Path) -> Extension:
    """A module of all the C in a folder."""
    return Extension(
        name,
        sources=sorted(map(str, sources.glob("*.c"))),
        depends=sorted(map(str, sources.glob("*.h"))),
        extra_compile_args=FLAGS,
        py_limited_api=True,  # one file for this Python and all later ones
        optional=True,
    )


setup(
    headers=[str(STARTUP)],
    cmdclass={"install_headers": InstallBesidePackage},
    ext_modules=[
        extension("steptime.backend.host._kernel", PACKAGE / "backend" / "kernel"),
        extension("steptime.record._recorder", PACKAGE / "record" / "recorder"),
        extension("steptime.simulate.network._engine", PACKAGE / "simulate" / "engine"),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
