"""Make the rows of measured steps that steptime ships, from the tables as they were published.

    python benchmarks/validation_rows.py FOLDER

FOLDER has measured_steps_calibration.csv, published_rows.csv, vtrain_a100_single_1440.csv and
vtrain_a100_multi_calibration.csv. Every file of src/steptime/plan/rows gets the columns of the
first; no measured figure is altered. What a table leaves unstated stays empty. Where a table gives
no seconds, they follow from what it does give, by the formula of its source:

- tokens a second and GPU: batch × tokens a row / (GPUs × rate);
- nanotron's MFU: of 989.5 TFLOP/s, and of 6 a parameter that multiplies and 12·layers·hidden·row a
  token, where a model in stages, or with a head of its own, counts the table of its embedding too,
  as its sweep shows, which has both figures;
- other MFU and TFLOP/s a GPU without seconds: 72·B·L·s·h²(1 + s/6h + V/12hL) generalised to the
  model, of 312 or 989 TFLOP/s.

Rows of published_rows.csv that the sweep has too are left out.
"""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from steptime.plan.rows import COLUMNS

ROWS = Path(__file__).parent.parent / "src" / "steptime" / "plan" / "rows"
VTRAIN = "VIA-Research/vTrain data/ground_truth_{}.csv @f8dda84"
NANOTRON = "nanotron docs/benchmark_summary.svg @2411b02"
A100, H100 = 312e12, 989.5e12
GPUS = {
    "DGX A100-80GB": "A100-SXM4-80GB",
    "DGX A100": "A100-SXM4-40GB",
    "DGX-2 V100": "V100-SXM3-32GB",
    "A100-80GB": "A100-SXM4-80GB",
    "A100 (Ampere)": "A100-SXM4-80GB",
    "H100-80GB": "H100-SXM5-80GB",
    "H100-96GB HBM2e": "H100-96GB-HBM2e",
    "128x H100-94GB HBM2e": "H100-96GB-HBM2e",
    "H200": "H200-SXM-141GB",
    "8 nodes MI325X": "MI325X",
    "8 nodes MI355X": "MI355X",
}
"""GPUs by how the texts of published_rows.csv begin."""

Values = dict[str, str]


def table(path: Path) -> list[Values]:
    """The lines of a CSV file by their columns."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, rows: Sequence[Values]) -> None:
    """Write a shipped file; the same rows give the same bytes."""
    with (ROWS / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def of_vtrain(one: Values, which: str) -> Values:
    """A row of vTrain's; the width of the MLP and the vocabulary are those of its models."""
    hidden = one["hidden size"]
    size = one.get("Parameters (billion)")
    return {
        "source": VTRAIN.format(which),
        "model": f"GPT {size}B" if size else f"GPT {one['# layers']} x {hidden}",
        "hidden": hidden,
        "layers": one["# layers"],
        "heads": one["attention heads"],
        "kv_heads": one["attention heads"],
        "ffn": f"{4 * int(hidden)}?",
        "seq": one["sequence length"],
        "vocab": "51200?",
        "gpu": "A100-SXM4-80GB?",
        "n_gpus": one["# GPUs"],
        "tp": one["tensor parallelism"],
        "pp": one["pipeline parallelism"],
        "dp": one["data parallelism"],
        "cp": "1",
        "ep": "1",
        "micro_batch": one["micro batch"],
        "global_batch": one["global batch"],
        "step_s": f"{float(one['iteration time (ms)']) / 1000:.6g}",
        "target": "step_s",
        "complete": "yes(vocabulary, recompute, schedule and network unstated)",
    }


def of_published(one: Values) -> Values:
    """A row of published_rows.csv."""
    gpu = max((text for text in GPUS if one["hw"].startswith(text)), key=len)
    memory = one["mem_gib"]
    padded = one["vocab"].endswith("padded")
    nanotron = one["source"].startswith("nanotron")
    size = one["model"].split()[-1].removesuffix("B")
    note = "; ".join(filter(None, (one["id"], one["hw"], one["note"])))
    row = {
        "source": one["source"],
        "model": f"{one['model']} of MegaScale" if "PTB" in one["note"] else one["model"],
        "params": f"{float(size):g}e9" if nanotron else "",
        "gpu": GPUS[gpu],
        "n_gpus": one["gpus"],
        "micro_batch": one["mbs"],
        "global_batch": one["gbs"],
        "vocab": "51200?" if padded else one["vocab"],
        "recompute": one["recompute"].removesuffix("?") or "",
        "zero_fsdp": one["zero"] and _zero(one),
        "precision": one["precision"],
        "mfu_pct": one["mfu_pct"],
        "tflops_per_gpu": one["tflops_gpu"],
        "tokens_per_s_gpu": one["tok_s_gpu"],
        "mem_gib": "" if memory == "OOM" else memory,
        "ep": "8" if one["id"] == "primus-mixtral" else "1",
        "sp": _sequence_parallel(one),
        "complete": one["complete"],
        "note": f"{note}; out of memory" if memory == "OOM" else note,
    }
    same = ("layers", "hidden", "heads", "kv_heads", "ffn", "seq", "tp", "pp", "vpp", "cp", "dp")
    row |= {column: one[column] for column in same}
    if one["id"].startswith("tt") and one["pp"] != "1":
        # What is printed is the pipeline's whole batch. Of 2024 torchtitan cut it into as many
        # micro-batches as it had stages, all chunks counted, where nothing else was said.
        chunks = 2 if "interleaved" in one["id"] else 1
        row["micro_batch"] = f"{int(one['mbs']) // (int(one['pp']) * chunks)}?"
        row["vpp"] = "2?" if chunks == 2 else "1"
    return row | _seconds(one, row)


def _zero(one: Values) -> str:
    stage = one["zero"]
    return f"ZeRO-{stage}" if stage.isdigit() else stage


def _sequence_parallel(one: Values) -> str:
    if "no SP" in one["recompute"]:
        return "no"
    return "yes" if "+SP" in one["recompute"] or one["source"].startswith("nanotron") else ""


def _seconds(one: Values, row: Values) -> Values:
    """The time of a step, and of which figure it follows."""
    if one["iter_s"]:
        return {"step_s": one["iter_s"], "target": "step_s"}
    if "OOM" in one["mem_gib"]:
        return {"target": "out of memory"}
    if not one["gbs"]:
        return {"target": "tokens_per_s_gpu"}
    tokens = int(one["gbs"]) * int(one["seq"])
    if one["tok_s_gpu"]:
        rate, target = float(one["tok_s_gpu"]), "tokens_per_s_gpu"
    elif one["tflops_gpu"]:
        rate, target = float(one["tflops_gpu"]) * 1e12 / _flops(one), "tflops_per_gpu"
    else:
        peak = A100 if "A100" in row["gpu"] else H100
        rate, target = float(one["mfu_pct"]) / 100 * peak / _flops(one), "mfu_pct"
    return {"step_s": f"{tokens / int(one['gpus']) / rate:.6g}", "target": target}


def _flops(one: Values) -> float:
    """FLOP of a token, as the source of a row counts them."""
    hidden, layers, ffn, seq, vocabulary = (
        int(one[key].rstrip("?")) for key in ("hidden", "layers", "ffn", "seq", "vocab")
    )
    shared = 2 * int(one["kv_heads"]) / int(one["heads"])
    nanotron = one["source"].startswith("nanotron")
    matrices = 3 if nanotron or one["source"].startswith("arXiv2407") else 2
    tables = 2 if nanotron and (one["pp"] != "1" or one["note"].startswith("untied")) else 1
    weights = layers * ((2 + shared) * hidden**2 + matrices * hidden * ffn)
    return 6 * (weights + tables * hidden * vocabulary) + 12 * layers * hidden * seq


GPT2 = {
    "model": "GPT-2 124M",
    "params": "124475904",
    "hidden": "768",
    "layers": "12",
    "heads": "12",
    "kv_heads": "12",
    "ffn": "3072",
    "seq": "1024",
    "vocab": "50304",
    "n_gpus": "8",
    "tp": "1",
    "pp": "1",
    "dp": "8",
    "cp": "1",
    "ep": "1",
    "precision": "bf16",
    "recompute": "none",
}
OF_GPT2 = (
    {
        "source": "karpathy/llm.c scripts/run_gpt2_124M.sh @f1e2ace",
        "gpu": "A100-SXM4-80GB",
        "micro_batch": "64",
        "global_batch": "512",
        "zero_fsdp": "ZeRO-1",
        "step_s": "0.3",
        "target": "step_s",
        "note": "about 300 ms an iteration",
    },
    {
        "source": "KellerJordan/modded-nanogpt README #1, of llm.c @f411b3d3",
        "gpu": "H100-SXM5-80GB",
        "micro_batch": "64",
        "global_batch": "512",
        "zero_fsdp": "ZeRO-1?",
        "step_s": f"{45 * 60 / 19560:.4f}",
        "target": "minutes and steps",
        "note": "45 min for 19,560 steps, of 524,288 tokens each as is assumed",
    },
    {
        "source": "KellerJordan/modded-nanogpt README #2 @f411b3d3",
        "gpu": "H100-SXM5-80GB",
        "micro_batch": "64",
        "global_batch": "512",
        "zero_fsdp": "ZeRO-0",
        "step_s": f"{31.4 * 60 / 9536:.4f}",
        "target": "minutes and steps",
        "note": "31.4 min for 9,536 steps of torch.compile",
    },
    {
        "source": "karpathy/nanoGPT README @3adf61e1",
        "gpu": "A100-SXM4-40GB",
        "micro_batch": "12",
        "global_batch": "480",
        "zero_fsdp": "ZeRO-0",
        "step_s": f"{4 * 86400 / 600_000:.3f}",
        "target": "days and steps",
        "note": "about 4 days for 600,000 steps of torch.compile",
    },
)
"""What trainings of GPT-2 of 124M say of their length."""


def in_sweep(one: Values, sweep: set[tuple[str, ...]]) -> bool:
    """Whether the sweep has this row of nanotron's summary too."""
    size = one["model"].split()[-1]
    keys = ("gpus", "tp", "pp", "dp", "mbs")
    return (size, *(one[key] for key in keys), f"ZeRO-{one['zero']}") in sweep


def main(folder: Path) -> None:
    ROWS.mkdir(exist_ok=True)
    measured = table(folder / "measured_steps_calibration.csv")
    keys = ("n_gpus", "tp", "pp", "dp", "micro_batch", "zero_fsdp")
    sweep = {
        (one["model"].split()[-1], *(one[key] for key in keys))
        for one in measured
        if one["step_s"] and one["source"].startswith("nanotron")
    }
    published = table(folder / "published_rows.csv")
    single = table(folder / "vtrain_a100_single_1440.csv")
    several = table(folder / "vtrain_a100_multi_calibration.csv")
    write("measured_steps.csv", measured)
    write("published.csv", [of_published(one) for one in published if not in_sweep(one, sweep)])
    write("gpt2.csv", [GPT2 | one for one in OF_GPT2])
    write("vtrain_single.csv", [of_vtrain(one, "single") for one in single])
    write("vtrain_multi.csv", [of_vtrain(one, "multi") for one in several])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
