"""What the programs that read our exports say of them, beside what ``simulate`` says.

    python benchmarks/export_judges.py --sources FOLDER --build FOLDER [--only A,B] [--judges C,D]

Each run is simulated by the command line and exported; each judge reads the files. The steps are
simulated once more here as GOAL and Chakra tell them: one step, whatever the step before left. Both
networks give every rank a link of 1 GB/s each way and 10 us a message, or no cost at all. LogGOPSim
has o = g = 0, L and G. ASTRA-sim has a link for every pair of ranks, rings, one chunk a collective.

A ratio is the judge's time over ours. ``never``: ASTRA-sim stops before all ranks have finished.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from export_peers import built

from steptime.cluster import Cluster
from steptime.cluster.files import parse_cluster
from steptime.cluster.what_if import ideal
from steptime.program import Compute, Program
from steptime.program.chakra import read_chakra
from steptime.program.goal import ProgramGoal
from steptime.program.stored import read_programs
from steptime.runs.run_folder import TRACE
from steptime.simulate.simulation import Simulation
from steptime.simulate.step import simulate
from steptime.study.export import export
from steptime.timeline import Phase, read_chrome_trace

EXPORTS = {
    "replicated": "simulate gpt2-124M --strategy replicated --ranks 4",
    "overlapped": "simulate gpt2-124M --strategy overlapped --ranks 4",
    "sharded": "simulate gpt2-124M --strategy sharded --ranks 4",
    "overlapped_sharded": "simulate gpt2-124M --strategy overlapped_sharded --ranks 4",
    "sliced": "simulate gpt2-124M --strategy sliced --ranks 4",
    "server": "simulate gpt2-124M --strategy server --ranks 4",
    "zero2": "simulate gpt2-124M --tensor 2 --zero 2 --ranks 4",
    "zero3": "simulate gpt2-124M --tensor 2 --zero 3 --ranks 4",
    "1f1b": "simulate gpt2-124M --pipeline 4 --ranks 4",
    "gpipe": "simulate gpt2-124M --pipeline 4 --schedule gpipe --ranks 4",
    "interleaved": "simulate gpt2-124M --pipeline 2 --schedule interleaved --ranks 2",
    "zb-h1": "simulate gpt2-124M --pipeline 4 --schedule zb-h1 --ranks 4",
    "3D": "simulate gpt2-124M --tensor 2 --pipeline 2 --data 2 --ranks 8",
    "context": "simulate gpt2-124M --context 2 --ranks 4",
    "experts": "simulate mixtral-8x7B --layers 2 --tokens 1024 --expert 4 --ranks 4",
    "resnet50": "simulate resnet50 --strategy overlapped --ranks 4",
    "dlrm": "simulate dlrm --ranks 4",
    "cosmoflow": "simulate cosmoflow --strategy overlapped --ranks 4",
    **{
        f"{name} C++": f"proxy {name} --compat dnn-cpp-proxies --ranks 4"
        for name in ("bert_large", "gpt2_large", "cosmoflow", "dlrm", "resnet50", "resnet152")
    },
}
# How ASTRA-sim is told to carry out collectives, in our names.
THEIRS = {
    "all_to_all": "direct",
    **dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather"), "ring"),
}
RATE, LATENCY = 1e9, 10e-6  # bytes/s and seconds of a message
DEVICE = """
[device]
name = "device"
flops = {{ fp32 = "20TFLOP/s", bf16 = "40TFLOP/s" }}
memory = "1TB"
memory_bandwidth = "1TB/s"
"""
SWITCH = (
    DEVICE
    + """
[host]
count = {ranks}
[nic]
bandwidth = "1GB/s"
latency = "5us"
[network]
kind = "switch"
"""
)
MESH = (
    DEVICE
    + """
[host]
devices = {ranks}
[inside]
kind = "pairs"
pairs = [{pairs}]
"""
)
PAIR = '{{ from = {}, to = {}, bandwidth = "1GB/s", latency = "10us" }}'
SYSTEM = {
    "scheduling-policy": "FIFO",
    "endpoint-delay": 1,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
    "collective-optimization": "baseline",
    "local-mem-bw": 1e9,
    "boost-mode": 0,
}
PATIENCE_S = 120

Peers: TypeAlias = Callable[[str], Path]
"""The folder of a peer's programs, by its name."""


@dataclass(frozen=True)
class Run:
    """A step with the seconds that its computing takes, its algorithms, and its run's folder."""

    program: Program
    chosen: Mapping[str, str]
    folder: Path

    @staticmethod
    def of(folder: Path) -> "Run":
        (stored,) = read_programs(folder)
        lists = tuple(
            tuple(
                replace(op, seconds=took) if isinstance(op, Compute) else op
                for op, took in zip(ops, seconds, strict=True)
            )
            for ops, seconds in zip(stored.program.lists, stored.seconds, strict=True)
        )
        return Run(replace(stored.program, lists=lists), ProgramGoal(stored).chosen, folder)

    def ours(self, cluster: Cluster) -> Simulation:
        return simulate(self.program, cluster, algorithms=self.chosen, steps=1)

    def exported(self, to: str) -> Path:
        return export(self.folder, to).files[0]


def seconds(simulation: Simulation) -> float:
    return float(simulation.timeline.intervals["end"].max())


def clusters(text: str, ranks: int) -> tuple[Cluster, Cluster]:
    """The network that costs nothing, and the plain one."""
    pairs = ", ".join(PAIR.format(*pair) for pair in permutations(range(ranks), 2))
    plain = parse_cluster(text.format(ranks=ranks, pairs=pairs), "judge")
    return ideal(plain), plain


def simulated(words: str, folder: Path) -> Run:
    """A run of the command line on the plain network."""
    cluster = folder.with_suffix(".toml")
    ranks = int(words.split()[-1])
    cluster.write_text(SWITCH.format(ranks=ranks))
    command = [sys.executable, "-m", "steptime", *words.split(), "--quiet"]
    command += ["--cluster", str(cluster), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Run.of(folder)


def ratio(theirs: float | None, ours: float) -> str:
    """The judge's time over ours; 1 within a microsecond, less than which Chakra does not tell."""
    if theirs is None:
        return f"{'never':>9}"
    return f"{1.0 if abs(theirs - ours) < 1e-6 else theirs / ours:9.4f}"


def loggopsim(programs: Path, text: Path, network: str) -> float:
    """When LogGOPSim ends the last operation of a GOAL text, in seconds."""
    with TemporaryDirectory() as folder:
        binary = Path(folder, "step.bin")
        subprocess.run([programs / "txt2bin", "-i", text, "-o", binary], check=True)
        command = [programs / "LogGOPSim", "-f", binary, "-b", *network.split()]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Maximum finishing time at host \d+: (\d+)", out)
    if found is None:
        raise SystemExit(out[-2000:])
    return int(found[1]) / 1e9


def goal(name: str, run: Run, peers: Peers) -> str:
    """LogGOPSim and ATLAHS on both networks; and that messages and bytes are those of ours."""
    networks = ("-L 0 -o 0 -g 0 -G 0", f"-L {LATENCY * 1e9:.0f} -o 0 -g 0 -G {1e9 / RATE:.0f}")
    kinds = {"goal": peers("loggopsim"), "atlahs": peers("atlahs")}
    text = run.exported("goal").read_text()
    sizes = [int(size) for size in re.findall(r": send (\d+)b", text)]
    line = f"{name:18} {len(sizes):6,} {sum(sizes) / 1e6:6,.0f}"
    for cluster, network in zip(clusters(SWITCH, run.program.ranks), networks, strict=True):
        simulation = run.ours(cluster)
        sent = float(simulation.bytes_sent.sum())
        if len(sizes) != simulation.messages or abs(sum(sizes) - sent) > len(sizes):
            line += " MESSAGES DIFFER"
        ours = seconds(simulation)
        found = [loggopsim(where, run.exported(to), network) for to, where in kinds.items()]
        line += f" {ours * 1e3:9,.2f}" + "".join(ratio(one, ours)[-7:] for one in found)
    return line


def astra_sim(program: Path, traces: Path, ranks: int, gigabytes: float, ns: float) -> float | None:
    """When the last rank of ASTRA-sim finishes, in seconds; None where one never does.

    ``traces``: the path of the traces without their rank; groups may lie beside them.
    """
    groups = traces.with_name("comm_groups.json")
    with TemporaryDirectory() as folder:
        network, system, memory = (Path(folder, name) for name in ("n.yml", "s.json", "m.json"))
        network.write_text(
            f"topology: [ FullyConnected ]\nnpus_count: [ {ranks} ]\n"
            f"bandwidth: [ {gigabytes!r} ]\nlatency: [ {ns!r} ]\n"
        )
        system.write_text(json.dumps(SYSTEM))
        memory.write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
        given = {
            "workload": traces,
            "comm-group": groups if groups.exists() else "empty",
            "system": system,
            "network": network,
            "remote-memory": memory,
        }
        command = [str(program), *(f"--{key}-configuration={path}" for key, path in given.items())]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder
            )
        except subprocess.TimeoutExpired:
            return None
    ended = re.findall(r"sys\[\d+\] finished, (\d+) cycles", done.stdout)
    return max(map(int, ended)) / 1e9 if len(ended) == ranks else None


def on_astra(run: Run, traces: Path, peers: Peers, *, free: bool) -> str:
    """Both analytical backends of ASTRA-sim, on the free or the plain network."""
    ranks = run.program.ranks
    run = replace(run, chosen=THEIRS)
    ours = seconds(run.ours(clusters(MESH, ranks)[0 if free else 1]))
    # What ASTRA-sim calls GB/s are GiB/s.
    network = (1e6, 0.0) if free else (RATE / 2**30, LATENCY * 1e9)
    line = f" {ours * 1e3:10,.3f}"
    for kind in ("unaware", "aware"):
        line += ratio(astra_sim(peers("astra") / kind, traces, ranks, *network), ours)
    return line


def chakra(name: str, run: Run, peers: Peers) -> str:
    traces = run.exported("chakra").parent / "step"
    return f"{name:18}" + "".join(on_astra(run, traces, peers, free=free) for free in (True, False))


def samples(sources: Path, peers: Peers) -> Iterator[str]:
    """ASTRA-sim's own samples, which it and we read."""
    examples = sources / "astra-sim/examples"
    for folder in sorted({path.parent for path in examples.glob("**/*.0.et")}):
        (first,) = folder.glob("*.0.et")
        traces = first.with_name(first.name.removesuffix(".0.et"))
        run = Run(read_chakra(folder), {}, folder)
        name = f"{traces.name} {run.program.ranks}"
        yield f"{name:18}" + on_astra(run, traces, peers, free=False)


def paraver(name: str, run: Run, peers: Peers) -> str:
    """What Paraver's parser finds in the trace, beside what the timeline has."""
    command = [peers("paraver") / "paraver", run.exported("paraver")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    states, ns, _, messages, nbytes, _ = map(int, done.stdout.split())
    timeline = read_chrome_trace(run.folder / TRACE)
    rows = timeline.intervals[timeline.intervals["phase"] != Phase.STEP]
    rows = rows[rows["end"] - rows["start"] >= 0.5e-9]
    took = float((rows["end"] - rows["start"]).sum())
    sent = int(timeline.messages["bytes"].sum())
    line = f"{name:18} {rows.size:7,} {states:7,} {took * 1e3:11,.3f} {ns / took / 1e9:9.6f}"
    line += f" {timeline.messages.size:6,} {messages:6,} {nbytes == sent!s:>6}"
    return line + ("  REFUSED" if done.stderr else "")


@dataclass(frozen=True)
class Judge:
    """What judges one export, and the heads of the table that it makes."""

    title: str
    heads: str
    of: Callable[[str, Run, Peers], str]


JUDGES = {
    "goal": Judge(
        "GOAL: LogGOPSim and ATLAHS's, over simulate",
        f"{'export':18} {'sends':>6} {'MB':>6} {'free ms':>9}{'LogGOP':>7}{'ATLAHS':>7} "
        f"{'plain ms':>9}{'LogGOP':>7}{'ATLAHS':>7}",
        goal,
    ),
    "chakra": Judge(
        "Chakra: ASTRA-sim's backends, over simulate",
        f"{'export':18} {'free ms':>10}{'unaware':>9}{'aware':>9} {'plain ms':>10}{'unaware':>9}"
        f"{'aware':>9}",
        chakra,
    ),
    "paraver": Judge(
        "Paraver: what its parser reads, beside the timeline",
        f"{'export':18} {'states':>7} {'theirs':>7} {'ms':>11} {'theirs':>9} {'msgs':>6} "
        f"{'theirs':>6} {'bytes':>6}",
        paraver,
    ),
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    asked.add_argument("--sources", type=Path, required=True, help="clones of the peers")
    asked.add_argument("--build", type=Path, required=True, help="where they are built, once")
    asked.add_argument("--only", default=",".join(EXPORTS), help="exports")
    asked.add_argument("--judges", default=",".join([*JUDGES, "samples"]))
    given = asked.parse_args()
    judges = given.judges.split(",")

    def peers(name: str) -> Path:
        return built(name, given.sources, given.build)

    with TemporaryDirectory() as folder:
        names = given.only.split(",") if judges != ["samples"] else []
        runs = {name: simulated(EXPORTS[name], Path(folder, name)) for name in names}
        for judge in (JUDGES[name] for name in judges if name in JUDGES):
            print(f"{judge.title}\n{judge.heads}", flush=True)
            for name, run in runs.items():
                print(judge.of(name, run, peers), flush=True)
            print()
    if "samples" in judges:
        print("Chakra: ASTRA-sim on its own samples, over simulate")
        print(f"{'sample, ranks':18} {'plain ms':>10}{'unaware':>9}{'aware':>9}", flush=True)
        for line in samples(given.sources, peers):
            print(line, flush=True)


if __name__ == "__main__":
    main()
