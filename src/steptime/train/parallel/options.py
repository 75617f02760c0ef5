"""Options of a training whose ranks share the model: the axes, by their names in a StepSpec."""

from dataclasses import dataclass
from math import prod

from steptime.limits import check_limits
from steptime.workloads.spec import Recompute


@dataclass(frozen=True, kw_only=True)
class ParallelOptions:
    """How ranks share a model; what is left of them are replicas of it."""

    tensor: int = 1
    """Ranks that share each layer."""

    pipeline: int = 1
    """Stages that share the layers."""

    context: int = 1
    """Ranks that share the tokens of each row, of which --tokens tells the number."""

    expert: int = 1
    """Ranks that spread a model's experts among them; each has rows of its own."""

    sequence_parallel: bool = False
    """Ranks along tensor each hold a share of the tokens between the halves of a block."""

    schedule: str | None = None
    """Order in which stages run micro-batches, as gpipe, 1f1b, interleaved or zb-h1; default:
    1f1b."""

    interleave: int | None = None
    """Chunks of layers that each stage holds; default: 1, of an interleaved pipeline 2."""

    micro_batches: int | None = None
    """Micro-batches of a step on each replica; default: of one row each, or --accumulate."""

    zero: int | None = None
    """What ranks with the same parameters shard: 1 the optimizer's state, 2 gradients too, 3
    parameters too; in place of --strategy."""

    recompute: Recompute = "none"
    """What backward computes anew instead of keeping it: the scores of attention (selective) or
    whole blocks (full)."""

    def __post_init__(self) -> None:
        check_limits(self)

    @property
    def shares(self) -> bool:
        """Whether ranks share a model or its rows, and are not replicas alone, as of a StepSpec."""
        return self.ranks > 1 or self.recompute != "none"

    @property
    def ranks(self) -> int:
        """How many ranks share one replica and its rows."""
        return prod((self.tensor, self.pipeline, self.context, self.expert))
