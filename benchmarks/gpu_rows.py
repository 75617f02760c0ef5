"""Steps of GPT-2 that steptime trains on one GPU, beside what ``simulate`` says of them.

    python benchmarks/gpu_rows.py

Given is the kind of the GPU alone. How long the host takes to launch a block was fitted to the
first of these steps, of the other predictions nothing. Of each model and batch one step of
``steptime train`` is timed, in bf16 and compiled, the median of blocks of steps; and the most
memory that its tensors took stands beside the model's, as computed.
"""

import gc

import numpy as np
import torch
from cpu_step import VOCABULARY
from gpu_step import WARMUP, Case, block, own, peak_gb
from one_gpu import on_one_gpu

import steptime as st
from steptime.cluster.known_gpus import gpu_named
from steptime.train.options import ModelOptions
from steptime.workloads.model_memory import memory_of_replica

CLUSTERS = {"H100": "dgx-h100", "H200": "hgx-h200-pod"}
ROWS = [
    ("124M", 4, 1024),
    ("124M", 16, 1024),
    ("124M", 64, 1024),
    ("124M", 64, 256),
    ("355M", 8, 1024),
    ("355M", 32, 1024),
    ("774M", 8, 1024),
]
BLOCKS, STEPS = 3, 8


def predicted(case: Case, cluster: str) -> tuple[float, float]:
    """Milliseconds and GB of a step."""
    strategy, rows, row = "overlapped_sharded", case.rows, case.context
    run = st.simulate(
        case.config,
        st.cluster(cluster),
        ranks=1,
        batch=rows,
        tokens=row,
        strategy=strategy,
        software="steptime",
    )
    memory = memory_of_replica(
        case.config, strategy, ranks=1, rows=rows, row=row, dtype="bf16", reduce_dtype="fp32"
    )
    return 1e3 * run.record.strategies[strategy].step_time_s.median, memory.total / 1e9


def measured(case: Case, device: torch.device) -> tuple[float, float]:
    """The same of one that runs."""
    torch._dynamo.reset()
    step = own(case, device)
    for _ in range(WARMUP):
        step()
    memory = peak_gb(step)
    seconds = [block(step, STEPS) for _ in range(BLOCKS)]
    del step
    gc.collect()
    torch.cuda.empty_cache()
    return 1e3 * float(np.median(seconds)), memory


def judge(device: torch.device) -> None:
    """Print each row, and how far the predictions are off."""
    name = torch.cuda.get_device_name(device)
    known = gpu_named(name)
    assert known, f"{name} is no GPU that steptime knows"
    cluster = next(one for part, one in CLUSTERS.items() if part in name)
    print(f"{name}, torch {torch.__version__}; predicted on {cluster}\n")
    print("model   rows  tokens   predicted  measured    off   MFU    predicted  measured     off")
    errors = []
    for size, rows, row in ROWS:
        case = Case(ModelOptions(model=size, tokens=row).config(VOCABULARY), rows, 1, row)
        ms, gb = predicted(case, cluster)
        took, most = measured(case, device)
        errors.append((ms / took - 1, gb / most - 1))
        print(
            f"{size:<6}{rows:6}{row:8}{ms:9.1f} ms{took:7.1f} ms{errors[-1][0]:+7.0%}"
            f"{100 * case.mfu(took / 1e3, known.flops['bf16']):5.1f} %"
            f"{gb:10.1f} GB{most:7.1f} GB{errors[-1][1]:+7.0%}",
            flush=True,
        )
    off = np.abs(np.array(errors))
    (time, memory), (most_time, most_memory) = off.mean(0), off.max(0)
    print(
        f"\noff by {time:.0%} on average in time, {memory:.0%} in memory; at most {most_time:.0%} "
        f"and {most_memory:.0%}"
    )


if __name__ == "__main__":
    on_one_gpu(judge)
