"""Sixty commands, and whether two revisions answer them with the same figures.

    python benchmarks/pinned.py against REVISION     both in turn, and where they differ
    python benchmarks/pinned.py record FOLDER        what this revision answers
    python benchmarks/pinned.py compare OLD NEW      where two such folders differ

What a clock moves is left out: wall times everywhere, and every measured time of live commands. Of
those the losses, hashes of parameters, bytes and counts remain. A moved or renamed piece of code
must leave all of it as it was, to the last digit.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
POD = "--cluster dgx-h100-pod --fidelity collective"
SIMULATED = {
    "one_host": "simulate gpt2-124M --cluster dgx-h100",
    "office": "simulate gpt2-124M --cluster office-10gbe --strategy overlapped "
    "--what-if bandwidth=10x --sensitivity",
    "ideal": "simulate gpt2-124M --cluster office-10gbe --strategy sharded,server --ideal",
    "pcie": "simulate gpt2-1558M --cluster pcie-host-bridge-8 --strategy overlapped",
    "zero": "simulate gpt2-1.5B --cluster dgx-h100 --batch 32 --strategy "
    "replicated,overlapped,sharded,overlapped_sharded,zero2,zero3 --fidelity collective",
    "zero_flag": f"simulate gpt2-355M {POD} --ranks 64 --zero 3",
    "laptop": "simulate gpt2-124M --cluster laptop --strategy all",
    "nine": "simulate --preset marenostrum5-nine",
    "gpt3": "simulate gpt3-175B --cluster h100-16384 --tensor 8 --pipeline 16 --data 128 "
    "--batch 1536",
    "hybrid": f"simulate gpt3-13B {POD} --ranks 32 --tensor 8 --pipeline 2 --micro-batches 8 "
    "--strategy overlapped",
    "tensor": "simulate gpt3-6.7B --cluster dgx-h100 --tensor 8 --batch 8 --micro-batches 8",
    "sequence": f"simulate llama3-8B {POD} --ranks 32 --tensor 4 --pipeline 2 --batch 64 "
    "--micro-batches 16 --sequence-parallel --recompute selective",
    "zb": f"simulate llama3-8B {POD} --ranks 64 --tensor 8 --pipeline 8 --batch 64 "
    "--micro-batches 16 --schedule zb-h1",
    "interleaved": f"simulate gpt3-13B {POD} --ranks 64 --tensor 8 --pipeline 4 --batch 32 "
    "--micro-batches 16 --schedule interleaved",
    "mixtral": f"simulate mixtral-8x7B {POD} --ranks 64 --tensor 2 --expert 8 --pipeline 2 "
    "--micro-batches 8 --batch 128 --zero 1",
    "context": f"simulate llama3-8B {POD} --ranks 64 --tensor 4 --context 4 --batch 32 "
    "--micro-batches 8 --tokens 8192",
    "resnet": f"simulate resnet50 {POD} --ranks 16",
    "bert": f"simulate bert-large {POD} --ranks 16 --batch 256 --accumulate 2",
    "dlrm": f"simulate dlrm {POD} --ranks 16 --batch 4096",
    "cosmoflow": f"simulate cosmoflow {POD} --ranks 32 --tensor 4 --batch 64",
    "ring": "simulate gpt2-124M --cluster dgx-h100 --strategy replicated "
    "--algorithm all_reduce=ring",
    "recompute": f"simulate llama3-70B {POD} --ranks 64 --tensor 8 --pipeline 4 --batch 32 "
    "--micro-batches 16 --recompute full",
    "bf16": "simulate gpt2-124M --cluster dgx-a100 --reduce-dtype bf16 --precision fp32",
    "bucket": "simulate gpt2-355M --cluster dgx-a100-pod --ranks 16 --strategy overlapped "
    "--bucket 50MiB",
    "scale": "scale gpt2-124M --cluster dgx-h100-pod --ranks 8,64,512 --strong --batch 512",
    "scale_weak": "scale gpt2-355M --cluster dgx-a100-pod --ranks 8,32,128 --strategies "
    "overlapped,sharded",
}
PROXIES = {
    "proxy_hybrid": "proxy gpt3-13B --ranks 64 --tensor 8 --pipeline 4 --precision bf16 "
    "--micro-batches 8 --dry-run",
    "proxy_gpt3": "proxy gpt3-175B --ranks 1024 --tensor 8 --pipeline 8 --precision fp32 "
    "--micro-batches 16 --dry-run",
    "proxy_moe": "proxy mixtral-8x7B --ranks 128 --tensor 2 --context 2 --expert 8 --pipeline 2 "
    "--micro-batches 8 --tokens 8192 --precision bf16 --sequence-parallel --zero 1 "
    "--recompute selective --dry-run",
    "proxy_data": "proxy gpt2-124M --ranks 4 --strategy overlapped_sharded --precision fp32 "
    "--dry-run",
    "proxy_layers": "proxy llama3-8B --ranks 8 --layers 2 --zero 3 --precision fp32 --dry-run",
    "proxy_dlrm": "proxy dlrm --ranks 4 --batch 2048 --precision fp32 --dry-run",
    "proxy_cosmoflow": "proxy cosmoflow --ranks 8 --tensor 4 --batch 16 --precision fp32 --dry-run",
    "proxy_resnet": "proxy resnet152 --ranks 8 --strategy sharded --precision fp16 --dry-run",
    "compat_gpt3": "proxy gpt3 --compat dnn-cpp-proxies --ranks 8 --pipeline 2 --acc-scale 2 "
    "--dry-run",
    "compat_cosmoflow": "proxy cosmoflow --compat dnn-cpp-proxies --ranks 8 --dry-run",
    "compat_dlrm": "proxy dlrm --compat dnn-cpp-proxies --ranks 8 --dry-run",
    "proxy_there": "proxy gpt3-13B --cluster dgx-h100-pod --ranks 32 --tensor 8 --pipeline 2 "
    "--precision bf16 --micro-batches 8 --rows 1 --strategy overlapped --fidelity collective",
    "proxy_data_there": "proxy gpt2-124M --cluster dgx-h100 --ranks 8 --precision bf16",
    "proxy_device": "proxy gpt2-124M --ranks 4 --device-flops 10TFLOP/s --device-memory 1TB/s "
    "--precision fp32 --dry-run",
    "describe": "proxy describe llama3-8B",
    "describe_gpt": "proxy describe gpt2-1.5B",
}
COLLECTIVES = {
    "verify": "verify --ranks 2-9",
    "verify_sixteen": "verify all_reduce --ranks 16",
    "show_ring": "show ring --ranks 4",
    "show_tree": "show all_reduce/double_tree --ranks 8",
    "show_there": "show all_reduce/two_level --ranks 9 --bytes 64MiB --cluster marenostrum5-nine",
    "show_bubble": "show pipeline --stages 4 --microbatches 8 --schedule zb-h1",
    "show_chunks": "show pipeline --stages 4 --microbatches 4 --interleave 2",
    "clusters": "cluster list",
    "cluster": "cluster show h100-16384",
    "cluster_file": "cluster show examples/clusters/dragonfly.toml",
    "topo_sockets": "topo --file tests/topo/saved/pcie-2-sockets.txt",
    "topo_explained": "topo --file tests/topo/saved/dgx-h100.txt --explain",
}
LIVE = {
    "compare": "compare gpt2 --model nano --ranks 2 --steps 3 --warmup 1",
    "compare_four": "compare gpt2 --model nano --ranks 4 --steps 2 --warmup 1 "
    "--strategies sharded,sliced --precision bf16",
    "train": "train gpt2 --model nano --ranks 2 --steps 3 --strategy overlapped_sharded",
    "bench": "bench all_reduce --ranks 2 -b 1K -e 64K -f 8 --algorithms builtin,ring",
    "replay": "proxy gpt2-124M --ranks 4 --tensor 2 --pipeline 2 --layers 2 --scale-bytes 1/64 "
    "--precision fp32 --micro-batches 4 --verify --steps 2 --warmup 1",
    "replay_compat": "proxy resnet152 --compat dnn-cpp-proxies --ranks 2 --scale-bytes 1/64 "
    "--compute nothing --steps 2 --warmup 1",
}
COMMANDS = SIMULATED | PROXIES | COLLECTIVES | LIVE
WORDS_ONLY = {name for name in COLLECTIVES if name.startswith("show")}
"""These print a picture in characters: every character counts."""

RUN_BY_RUN = {"run", "wall_s", "environment", "out"}
"""Keys that differ between two runs of one revision."""

MEASURED = re.compile(
    r"(_s|_us|_GBps|_per_s|ratio|step_time|against_server|under_way|^rss_bytes|efficiency|speedup)$"
    r"|^(cv|wrong|load|ranks|winner|error|times?|residual|level_with|doubt|ratios|turns|speedup_ci95)$|^wire_|_time_"
)
"""Keys of a live run that a clock, or the kernel's sockets, fill."""


def figures(answer: Any, *, live: bool, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every figure and word of an answer by its path, but what differs from run to run."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key not in RUN_BY_RUN and not (live and MEASURED.search(key)):
                yield from figures(value, live=live, path=f"{path}.{key}" if path else key)
    elif isinstance(answer, list):
        yield f"{path}#", len(answer)
        for place, value in enumerate(answer):
            yield from figures(value, live=live, path=f"{path}[{place}]")
    else:
        yield path, answer


def record(name: str, folder: Path, checkout: Path = ROOT) -> None:
    """Run a command of a ``checkout`` and leave its figures in ``folder``, as NAME.json."""
    as_json = [] if name in WORDS_ONLY else ["--json"]
    with tempfile.TemporaryDirectory() as out:
        leaves = ["--out", out] if shlex.split(COMMANDS[name])[0] in _LEAVE_A_RUN else []
        done = subprocess.run(
            [sys.executable, "-m", "steptime", *shlex.split(COMMANDS[name]), *as_json, *leaves],
            cwd=checkout,
            env=os.environ | {"COLUMNS": "100", "PYTHONPATH": str(checkout / "src")},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        answer: dict[str, Any] = {"exit": done.returncode, "said": done.stderr.strip()[-400:]}
    elif as_json:
        answer = dict(figures(json.loads(done.stdout), live=name in LIVE))
    else:
        answer = dict(enumerate(done.stdout.splitlines()))
    (folder / f"{name}.json").write_text(json.dumps(answer, indent=0))


_LEAVE_A_RUN = {"simulate", "scale", "compare", "train", "proxy"}


def compare(old: Path, new: Path) -> int:
    """Print where two recorded folders differ; how many commands do."""
    changed = more = 0
    for name in COMMANDS:
        before, after = (json.loads((at / f"{name}.json").read_text()) for at in (old, new))
        paths = [key for key in before if before[key] != after.get(key, "absent")]
        added = [key for key in after if key not in before]
        if paths:
            changed += 1
            print(f"{name}: {len(paths):,} of {len(before):,} figures differ")
            for key in paths[:8]:
                print(f"    {key}: {before[key]} → {after.get(key, 'absent')}")
        more += len(added)
    print(f"{len(COMMANDS) - changed} of {len(COMMANDS)} commands give the same figures", end="")
    print(f"; {more:,} figures are new")
    return changed


def record_all(folder: Path, chosen: Sequence[str], checkout: Path = ROOT) -> None:
    """Run commands, two at a time, and say on stderr which are done."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        for name in pool.map(lambda name: record(name, folder, checkout) or name, chosen):
            print(name, file=sys.stderr, flush=True)


def against(revision: str) -> int:
    """Run all commands on this checkout and on one of ``revision``; how many differ."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        old, checkout = Path(folder) / "old", Path(folder) / "checkout"
        subprocess.run([*git, "add", "--quiet", "--detach", checkout, revision], check=True)
        try:
            record_all(old, list(COMMANDS), checkout)
        finally:
            subprocess.run([*git, "remove", "--force", checkout], check=True)
        record_all(Path(folder) / "new", list(COMMANDS))
        return compare(old, Path(folder) / "new")


def main() -> int:
    what, *words = sys.argv[1:]
    if what == "record":
        record_all(Path(words[0]), words[1:] or list(COMMANDS))
        return 0
    return (against(*words) if what == "against" else compare(*map(Path, words))) > 0


if __name__ == "__main__":
    sys.exit(main())
