"""Installs steptime.pth beside the package, for ``pip install .`` and ``pip install -e .`` alike.

Python runs that file whenever it starts; it does nothing unless STEPTIME_RECORD is set. All else is
in pyproject.toml, which cannot name a file that belongs beside a package. Of what setuptools copies
for both kinds of installation only headers are free: the file goes as one.
"""

from pathlib import Path

from setuptools import Command, setup

STARTUP = Path("src") / "steptime.pth"


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


setup(
    headers=[str(STARTUP)],
    cmdclass={"install_headers": InstallBesidePackage},
)
