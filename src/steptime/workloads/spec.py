"""StepSpec: what is asked of a training step, its defaults and its checks, the same for every verb.

The defaults, and why they are these. *Precision* bf16 where the device has it and where no device
is named: that is what models are trained in. *Gradients* in fp32, as Megatron-LM and FSDP sum them.
*Bucket* 25 MiB, as PyTorch's DDP. *Schedule* 1f1b, the one that Megatron-LM and DeepSpeed take; an
interleaved one has 2 chunks a stage, for with 1 it were 1f1b. *Batch*: in plain data parallelism 8
rows a rank, in one micro-batch; where ranks share a model, micro-batches of 1 row, which every
model's memory allows, and 4 of them a stage, with which the bubble of 1f1b is a fifth of the step.
*Strategy* replicated, the plainest; of a model that ranks share in a way of its own overlapped.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from cyclopts import Parameter

from steptime.limits import check_limits
from steptime.units import Size
from steptime.workloads.precision import DtypeName
from steptime.workloads.sizes import Sizes

Precision: TypeAlias = Literal["fp32", "bf16", "fp16", "fp8"]
Recompute: TypeAlias = Literal["none", "selective", "full"]


@dataclass(frozen=True, kw_only=True)
class StepSpec(Sizes):
    """One training step: a model, how ranks share it, and how it is trained.

    None where nothing is said. ``workloads.resolve`` fills in every default: what is
    None after that the step does not have, as a model without layers or a step without a pipeline.
    """

    model: Annotated[str, Parameter(parse=False)] = ""
    """The model, by its name or file; or a family, gpt or llama, whose dimensions tell it."""

    ranks: Annotated[int | None, Parameter(parse=False)] = None
    """Ranks in all; default: as many as the cluster has places for."""

    data: int | None = None
    """Replicas; default: what the other axes leave of the ranks."""

    tensor: int | None = None
    """Ranks that share each layer."""

    pipeline: int | None = None
    """Stages that share the layers."""

    expert: int | None = None
    """Ranks that spread a model's experts among them; each has rows of its own."""

    context: int | None = None
    """Ranks that share the tokens of each row."""

    sequence_parallel: bool = False
    """Ranks along tensor each hold a share of the tokens between the halves of a block."""

    recompute: Recompute = "none"
    """What backward computes anew instead of keeping it: the scores of attention (selective) or
    whole blocks (full)."""

    batch: int | None = None
    """Rows of the global batch; default: --rows times the micro-batches of all replicas."""

    micro_batches: Annotated[
        int | None, Parameter(name=("--micro-batches", "--microbatches", "--accumulate"))
    ] = None
    """Micro-batches of a step on each replica, whose gradients add up; default: 1. Where ranks
    share a model: as many as a replica has rows of --batch, without that 4 a stage."""

    rows: int | None = None
    """Rows of a micro-batch, which are the batch / (replicas × micro-batches); default: 8, where
    ranks share a model 1."""

    tokens: int | None = None
    """Tokens a row, if not the model's."""

    precision: Precision | None = None
    """The dtype of the computation; default: bf16, or fp32 where the cluster's devices lack it. In
    fp8 are the matrix products of blocks alone, all else is in bf16."""

    reduce_dtype: DtypeName | None = None
    """The dtype in which gradients are communicated; default: fp32."""

    strategy: str | None = None
    """Gradient-sync strategy; default: replicated, of dlrm, and of cosmoflow with --tensor,
    overlapped. Where ranks share a model it is replicated, sharded, overlapped, overlapped_sharded
    or, but for a pipeline, zero2 or zero3. simulate takes several with commas, and all, its default
    in plain data parallelism."""

    zero: int | None = None
    """What ranks with the same parameters shard: 1 the optimizer's state, 2 gradients too, 3
    parameters too; in place of --strategy."""

    bucket: Size | None = None
    """Bucket size of the overlapped strategies; default: 25MiB."""

    schedule: str | None = None
    """Order in which stages run micro-batches: gpipe, 1f1b, interleaved, zb-h1 or dualpipev;
    default: 1f1b."""

    interleave: int | None = None
    """Chunks of layers that each stage holds; default: 1, of interleaved and dualpipev 2."""

    software: str | None = None
    """The framework that drives a cluster's devices, as plan has it (megatron, torchtitan, …);
    default: kernels as a compiler makes them, and a host that is never late."""

    def __post_init__(self) -> None:
        check_limits(self)

    def given(self) -> list[str]:
        """The fields about which something was said."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    @property
    def asks_to_share(self) -> bool:
        """Whether it speaks of ranks that share a model or its rows, be it of 1 rank along an axis.

        The batch of such a step is counted in micro-batches of one row, so that steps of 1, 2 and 4
        tensor ranks compute the same.
        """
        axes = (self.tensor, self.pipeline, self.expert, self.context, self.sequence_parallel)
        return any(axes) or self.recompute != "none"

    @property
    def shares(self) -> bool:
        """Whether ranks do share a model or its rows, and are not replicas alone."""
        axes = (self.tensor, self.pipeline, self.expert, self.context)
        return any(size is not None and size > 1 for size in axes) or self.recompute != "none"


class OptionsOfAnyRanks(TypedDict, total=False):
    """The fields of a StepSpec as keyword arguments, but for the model and the ranks."""

    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    ffn: int | None
    vocabulary: int | None
    data: int | None
    tensor: int | None
    pipeline: int | None
    expert: int | None
    context: int | None
    sequence_parallel: bool
    recompute: Recompute
    batch: int | None
    micro_batches: int | None
    rows: int | None
    tokens: int | None
    precision: Precision | None
    reduce_dtype: DtypeName | None
    strategy: str | None
    zero: int | None
    bucket: Size | str | None
    schedule: str | None
    interleave: int | None
    software: str | None


class StepOptions(OptionsOfAnyRanks, total=False):
    """The fields of a StepSpec as keyword arguments, but for the model."""

    ranks: int | None


def spec_of(step: StepOptions) -> StepSpec:
    """The specification that the options make, where a size may be text."""
    bucket = step.get("bucket")
    sized: Any = {**step, "bucket": None if bucket is None else Size(bucket)}
    return StepSpec(**sized)
