"""The programs that read what ``export`` writes, built from their sources.

Needs git, g++, cmake, re2c, gengetopt, protoc, and the headers of graphviz, protobuf, fmt and
spdlog. A source is a clone of the repository in the folder given, or is cloned from GitHub into it.
Of ASTRA-sim the newest commit is built whose submodules the public clones still have.
"""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """A repository on GitHub at a commit, or a folder of it."""

    repository: str
    commit: str
    part: str = ""

    def unpacked(self, sources: Path, into: Path) -> Path:
        """Its files in the folder ``into``, from its clone in the folder ``sources``."""
        clone = sources / self.repository.rpartition("/")[2]
        if not clone.exists():
            run("git", "clone", f"https://github.com/{self.repository}", clone)
        into.mkdir(parents=True, exist_ok=True)
        archive = into / "archive.tar"
        run(
            "git",
            "-C",
            clone,
            "archive",
            "-o",
            archive.resolve(),
            f"{self.commit}:{self.part}",
            ".",
            ":!*.o",
        )
        run("tar", "xf", "archive.tar", cwd=into)
        archive.unlink()
        return into


LOGGOPSIM = Source("spcl/LogGOPSim", "76451de", "src/LogGOPSim")
ATLAHS = Source("spcl/atlahs", "8837294", "sim/LogGOPSim")
PARAVER = Source("bsc-performance-tools/paraver-kernel", "abbc7c3", "utils/traceparser")
ASTRA = Source("astra-sim/astra-sim", "4f387bc")
SUBMODULES = {
    "graph_frontend/chakra": Source("mlcommons/chakra", "214f2c5"),
    "network_backend/analytical": Source("astra-sim/astra-network-analytical", "599a047"),
    "network_backend/analytical/extern/yaml-cpp": Source("jbeder/yaml-cpp", "3d2888c"),
    "remote_memory_backend/analytical": Source("astra-sim/astra-memory-analytical", "641cce8"),
}


def run(*command: object, cwd: Path | None = None) -> str:
    """What a command prints; it ends this program where it fails."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(name: str, sources: Path, build: Path) -> Path:
    """The folder of a peer's programs, built once."""
    folder = build / name
    if not (folder / "built").exists():
        shutil.rmtree(folder, ignore_errors=True)
        PEERS[name](sources, folder)
        (folder / "built").touch()
    return folder


def loggopsim(sources: Path, folder: Path) -> None:
    unpacked = LOGGOPSIM.unpacked(sources, folder / "source")
    parsers = {"txt2bin": "txt2bin_cmdline", "LogGOPSim": "loggopsim_cmdline"}
    _goal_programs(unpacked, folder, parsers, {name: f"{name}.ggo" for name in parsers.values()})


def atlahs(sources: Path, folder: Path) -> None:
    unpacked = ATLAHS.unpacked(sources, folder / "source")
    options = {"cmdline_txt2bin": "txt2bin.ggo", "cmdline": "simulator.ggo"}
    _goal_programs(
        unpacked, folder, {"txt2bin": "cmdline_txt2bin", "LogGOPSim": "cmdline"}, options
    )


def _goal_programs(
    source: Path, folder: Path, parsers: dict[str, str], options: dict[str, str]
) -> None:
    run("re2c", "-o", "txt2bin.cpp", "txt2bin.re", cwd=source)
    for program, parser in parsers.items():
        run("gengetopt", "-F", parser, "-i", options[parser], cwd=source)
        run("gcc", "-w", "-O2", "-c", f"{parser}.c", cwd=source)
        out = (folder / program).resolve()
        libraries = ["-lcgraph"] if program == "LogGOPSim" else []
        objects = [f"{program}.cpp", f"{parser}.o"]
        run("g++", "-w", "-O2", *objects, "-o", out, *libraries, cwd=source)


def astra(sources: Path, folder: Path) -> None:
    source = ASTRA.unpacked(sources, folder / "source")
    for path, module in SUBMODULES.items():
        module.unpacked(sources, source / "extern" / path)
    for library in ("fmt", "spdlog"):  # the system's
        found = source / "extern/helper" / library / "CMakeLists.txt"
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(f"find_package({library} REQUIRED)\n")
    schema = source / "extern/graph_frontend/chakra/schema/protobuf"
    run("protoc", "et_def.proto", "--cpp_out=.", cwd=schema)
    options = ["-DBUILDTARGET=all", "-DCMAKE_FIND_PACKAGE_TARGETS_GLOBAL=ON"]
    options += ["-DYAML_CPP_BUILD_TESTS=OFF", "-DYAML_CPP_BUILD_TOOLS=OFF"]
    work = folder / "work"
    run("cmake", "-S", source / "build/astra_analytical", "-B", work, *options)
    run("cmake", "--build", work, "-j2")
    for kind in ("Aware", "Unaware"):
        program = next(work.glob(f"**/bin/AstraSim_Analytical_Congestion_{kind}"))
        (folder / kind.lower()).symlink_to(program.resolve())


def paraver(sources: Path, folder: Path) -> None:
    parser = PARAVER.unpacked(sources, folder / "source")
    peer = HERE / "paraver_peer.cpp"
    run("g++", "-std=c++17", "-w", "-O1", f"-I{parser}", peer, "-o", folder / "paraver")


PEERS: dict[str, Callable[[Path, Path], None]] = {
    "loggopsim": loggopsim,
    "atlahs": atlahs,
    "astra": astra,
    "paraver": paraver,
}
