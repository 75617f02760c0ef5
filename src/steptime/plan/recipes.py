"""Recipes: what the source of a measured step leaves unstated, and why it is taken to be so.

The one table of all that is decided for rows; what a row states goes before it.
"""

from dataclasses import dataclass

from steptime.workloads.models import Architecture
from steptime.workloads.models.families.gpt2 import GPT2
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.spec import Recompute

_WIRE = 0.96
"""The part of a wire's rate that reaches the devices, as ConnectX-7 and EFA show."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the rows of one source are taken to have run, where they do not say.

    ``title``: of the source, short. ``words``: of which its whole name has one. ``why``: the
    reason, in a sentence.
    ``micro_batches`` and ``interleaves``: those tried where the row has none; the one predicted to
    be the fastest counts, as whoever published it had tuned it. ``between``: bytes/s of each device
    to other hosts, 0 for what its kind of host usually has. ``trees``: whether NCCL summed in
    trees, too. ``other_words``: of which the row's note or model has one where ``other`` is its
    software.
    """

    title: str
    words: tuple[str, ...]
    software: str
    why: str
    architecture: Architecture = GPT2
    recompute: Recompute = "none"
    schedule: str = "1f1b"
    sequence_parallel: bool = True
    zero: int = 0
    micro_batches: tuple[int, ...] = (1,)
    interleaves: tuple[int, ...] = (1,)
    precision: str = "bf16"
    vocabulary: int = 51200
    between: float = 0.0
    trees: bool = True
    other: str = ""
    other_words: tuple[str, ...] = ()


_GBIT = 1e9 / 8
_TUNED = (1, 2, 4, 8)

RECIPES = (
    Recipe(
        title="nanotron",
        words=("nanotron", "playbook"),
        software="nanotron",
        why="nanotron's sweep names neither its schedule nor recomputation: 1f1b and none, which "
        "its memory agrees with; sequence parallel, and EFA of 400 Gb/s a GPU",
        architecture=LLAMA,
        vocabulary=131072,
    ),
    Recipe(
        title="llm-foundry",
        words=("llm-foundry", "mosaicml"),
        software="llm-foundry",
        why="llm-foundry's MPT is a GPT-2 by its parameters, with FlashAttention and FSDP",
        zero=3,
        vocabulary=50368,
    ),
    Recipe(
        title="BLOOM",
        words=("bloom", "bigscience"),
        software="megatron-deepspeed",
        why="BLOOM's Megatron-DeepSpeed recomputed whole layers, without sequence parallelism, on "
        "four links of 100 Gb/s a host",
        recompute="full",
        sequence_parallel=False,
        zero=1,
        vocabulary=250880,
        between=4 * 100 * _GBIT / 8,
    ),
    Recipe(
        title="vTrain",
        words=("vtrain",),
        software="megatron-deepspeed",
        why="the configurations that vTrain ships recompute whole layers, run 1f1b, overlap no "
        "gradients and have 800 Gb/s a host; its six rows of 16 tensor ranks took what rings take",
        recompute="full",
        sequence_parallel=False,
        precision="fp16",
        between=_WIRE * 800 * _GBIT / 8,
        trees=False,
    ),
    Recipe(
        title="Megatron-LM SC'21",
        words=("2104.04473",),
        software="megatron-2021",
        other="deepspeed-2021",
        other_words=("zero-3",),
        why="SC'21 recomputed whole layers and tuned micro-batch and interleaving, which it does "
        "not print: the fastest predicted is taken",
        recompute="full",
        sequence_parallel=False,
        micro_batches=_TUNED,
        interleaves=(1, 2, 4),
    ),
    Recipe(
        title="Korthikanti 2022",
        words=("2205.05198",),
        software="megatron-2021",
        why="arXiv 2205.05198 says all, per row",
        sequence_parallel=False,
        recompute="selective",
    ),
    Recipe(
        title="MT-NLG",
        words=("2201.11990",),
        software="megatron-2021",
        why="MT-NLG recomputed whole layers, as the configuration that vTrain ships has it",
        recompute="full",
        sequence_parallel=False,
        zero=1,
    ),
    Recipe(
        title="Megatron-LM 2020",
        words=("tables.tex",),
        software="megatron-2021",
        why="Megatron-LM of 2020 recomputed whole layers of rows of 1,024 tokens",
        recompute="full",
        sequence_parallel=False,
        precision="fp16",
    ),
    Recipe(
        title="MegaScale",
        words=("megascale",),
        software="megatron-2023",
        other="megascale",
        other_words=("megascale-megascale",),
        why="MegaScale's text has micro-batches of 1 and 6 chunks a stage; Megatron-LM's usual "
        "selective recomputation with sequence parallelism",
        recompute="selective",
        zero=2,
        interleaves=(6,),
    ),
    Recipe(
        title="Llama 3",
        words=("2407.21783",),
        software="megatron",
        why="Llama 3's text has micro-batches of 1, interleaved stages and no recomputation at 8K",
        architecture=LLAMA,
        zero=2,
        interleaves=(8,),
        vocabulary=128256,
    ),
    Recipe(
        title="Megatron-LM H100",
        words=("megatron-lm", "megatron lm"),
        software="megatron",
        why="Megatron-LM's table leaves out micro-batch, interleaving and recomputation: none with "
        "FlashAttention and the distributed optimizer; the fastest predicted micro-batch",
        zero=1,
        micro_batches=_TUNED,
        interleaves=(1, 2, 4, 6),
    ),
    Recipe(
        title="torchtitan",
        words=("torchtitan",),
        software="torchtitan-eager",
        other="torchtitan",
        other_words=("compile", "fp8", "asynctp", "async", "vanilla"),
        why="torchtitan shards all by FSDP2; torch.compile where the row says so, in fp8 and in "
        "the runs of 2025",
        architecture=LLAMA,
        zero=3,
        vocabulary=128256,
    ),
    Recipe(
        title="Primus",
        words=("primus",),
        software="megatron",
        why="Primus runs Megatron-LM or torchtitan; activation checkpointing is unstated: none",
        architecture=LLAMA,
        zero=1,
        vocabulary=128256,
    ),
    Recipe(
        title="MLPerf Training",
        words=("mlperf",),
        software="mlperf",
        why="submissions of MLPerf run NeMo with fused kernels, sequence parallelism, the "
        "distributed optimizer, and no recomputation unless the row has it",
        zero=1,
    ),
    Recipe(
        title="NVIDIA NeMo",
        words=("dgxc", "nemo", "megatron-bridge", "megatron bridge"),
        software="nemo",
        why="NVIDIA's recipes run NeMo with fused kernels, sequence parallelism wherever tensor "
        "ranks are, the distributed optimizer, and no recomputation unless the row has it",
        zero=1,
    ),
    Recipe(
        title="InternEvo",
        words=("internevo", "internlm"),
        software="internevo",
        why="InternEvo shards the optimizer's state, and recomputes nothing unless the row says so",
        architecture=LLAMA,
        zero=1,
        vocabulary=103168,
    ),
    Recipe(
        title="llm.c",
        words=("llm.c",),
        software="llm.c",
        why="llm.c trains GPT-2 in bf16 with cuDNN's attention and ZeRO-1",
        zero=1,
        vocabulary=50304,
    ),
    Recipe(
        title="nanoGPT",
        words=("nanogpt",),
        software="torchtitan",
        why="nanoGPT and its descendants run PyTorch's DDP and torch.compile, as torchtitan does",
        vocabulary=50304,
    ),
)

USUAL = Recipe(
    title="others",
    words=(),
    software="megatron",
    why="nothing is known of this source: Megatron-LM with its distributed optimizer is assumed",
    zero=1,
    micro_batches=_TUNED,
)
"""For sources that no other recipe is for."""


def recipe_of(source: str) -> Recipe:
    """The recipe for the rows of a source: the first that has a word of its name."""
    name = source.casefold()
    return next((one for one in RECIPES if any(word in name for word in one.words)), USUAL)
