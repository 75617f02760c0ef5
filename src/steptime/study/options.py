"""What a simulation can be asked for: frozen, checked, and quick to import."""

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.units import Size

FidelityName: TypeAlias = Literal["auto", "message", "collective"]
Precision: TypeAlias = Literal["fp32", "bf16", "fp16"]
Recompute: TypeAlias = Literal["none", "selective", "full"]

MOST_RANKS_BY_MESSAGE = 128
"""Up to so many ranks auto simulates every message: a handful of seconds for a GPT-2."""


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """How a model is trained, where the workload is a model; None where nothing was said."""

    ranks: int | None = None
    """Ranks in all; default: as many as the cluster has places for."""

    strategy: str | None = None
    """Gradient-sync strategy, or several with commas; all, the default, are those that can run
    there. In hybrid parallelism replicated, the default, sharded, overlapped or
    overlapped_sharded; zero2 and zero3 everywhere but in a pipeline. Of dlrm, and of cosmoflow
    with --tensor, the default is overlapped."""

    zero: int | None = None
    """What ranks with the same parameters shard: 1 the optimizer's state, 2 gradients too, 3
    parameters too; in place of --strategy."""

    batch: int | None = None
    """Rows of the global batch; default: 8 for each rank that computes."""

    tokens: int | None = None
    """Tokens a row, if not the model's."""

    accumulate: int | None = None
    """Micro-batches whose gradients add up to one step of plain data parallelism; default: 1."""

    precision: Precision | None = None
    """The dtype of the computation; default: bf16 where the cluster's devices have it."""

    reduce_dtype: Precision | None = None
    """The dtype in which gradients are communicated; default: fp32."""

    bucket: Size | None = None
    """Bucket size of the overlapped strategies; default: 25MiB."""

    tensor: int | None = None
    """Ranks that share each layer."""

    pipeline: int | None = None
    """Stages that share the layers."""

    expert: int | None = None
    """Ranks that spread a model's experts among them; each has rows of its own."""

    context: int | None = None
    """Ranks that share the tokens of each row."""

    data: int | None = None
    """Replicas; default: what the other axes leave of the ranks."""

    sequence_parallel: bool = False
    """Ranks along tensor each hold a share of the tokens between the halves of a block."""

    recompute: Recompute | None = None
    """What backward computes anew instead of keeping it: the scores of attention (selective) or
    whole blocks (full); default: none."""

    micro_batches: int | None = None
    """Micro-batches of a step that each pipeline runs; default: as many as it has rows."""

    schedule: str | None = None
    """Order in which stages run micro-batches: gpipe, 1f1b, interleaved, zb-h1, or FILE.py with one
    of your own; default: 1f1b."""

    interleave: int | None = None
    """Chunks of layers that each stage holds; default: 1, of an interleaved pipeline 2."""

    def __post_init__(self) -> None:
        for name in self.given():
            value = getattr(self, name)
            if isinstance(value, int) and value < 1 and name != "zero":
                option = name.replace("_", "-")
                raise UsageError(f"--{option} is {value}: it must be at least 1")

    def given(self) -> list[str]:
        """The fields about which something was said."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    @property
    def hybrid(self) -> bool:
        """Whether it is about ranks that share a model or its rows, and not replicas alone."""
        axes = (self.tensor, self.pipeline, self.expert, self.context, self.data)
        return any((*axes, self.micro_batches, self.sequence_parallel, self.recompute))


@dataclass(frozen=True, kw_only=True)
class HowOptions:
    """How the step is simulated."""

    fidelity: FidelityName = "auto"
    """message: every message shares the links with all others under way; collective: each
    collective by itself, for thousands of ranks; auto: message up to 128 ranks."""

    algorithm: str = ""
    """Algorithms of collectives, as all_reduce=ring,broadcast=binomial; default: for each the one
    that is cheapest there."""

    steps: int = 2
    """Steps to simulate, at least 2; the last is shown."""

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise UsageError(
                f"--steps is {self.steps}: it must be at least 2, for only what follows a step is "
                "in the steady state"
            )
        self.algorithms()

    def given(self) -> list[str]:
        """The fields about which something else than the default was said."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    def fidelity_of(self, ranks: int) -> Literal["message", "collective"]:
        """The fidelity for so many ranks."""
        if self.fidelity == "auto":
            return "message" if ranks <= MOST_RANKS_BY_MESSAGE else "collective"
        return self.fidelity

    def algorithms(self) -> dict[str, str]:
        """The algorithm asked for of each kind of collective.

        Raises UsageError when the text names none, or two of one kind.
        """
        chosen: dict[str, str] = {}
        for part in self.algorithm.split(",") if self.algorithm else ():
            kind, equals, name = (word.strip() for word in part.partition("="))
            if not (kind and equals and name):
                raise UsageError(f"--algorithm has {part!r}: write KIND=NAME, as all_reduce=ring")
            if kind in chosen:
                raise UsageError(f"--algorithm names two for {kind}: leave one out")
            chosen[kind] = name
        return chosen
