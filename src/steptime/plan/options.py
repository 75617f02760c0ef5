"""What a plan is asked for: frozen, checked, and quick to import."""

import re
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, TypedDict

from cyclopts import Parameter

from steptime.errors import UsageError
from steptime.limits import check_limits, check_within, whole_number
from steptime.nearest import mend
from steptime.workloads.sizes import Sizes
from steptime.workloads.spec import Recompute

_COUNT = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d+)?)\s*([kKMGBT]?)")
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_MOST_TOKENS = 1e18
_PRICE = re.compile(r"\$?(\d+(?:\.\d*)?)\s*/\s*h")
_MOST_PRICE = 1e6
_MOST_SIMULATED = 100
_YES, _NO = ("yes", "true", "1"), ("no", "false", "0")
_ALIKE = {"micro_batch": "rows", "dp": "data", "tp": "tensor", "pp": "pipeline", "cp": "context"}
_ALIKE |= {"ep": "expert", "sp": "sequence_parallel", "vpp": "interleave"}


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Sizes):
    """The sizes of the model, and what of a layout is fixed; what is None is searched."""

    batch: int | None = None
    """Rows of the global batch; default: of 4Mi tokens, or of 1024 a rank where that is more."""

    tokens_per_row: int | None = None
    """Tokens a row, if not the model's."""

    data: int | None = None
    """Replicas."""

    tensor: int | None = None
    """Ranks that share each layer."""

    pipeline: int | None = None
    """Stages that share the layers."""

    expert: int | None = None
    """Ranks that spread a model's experts among them; each has rows of its own."""

    context: int | None = None
    """Ranks that share the tokens of each row."""

    sequence_parallel: Annotated[bool | None, Parameter(negative="--no-sequence-parallel")] = None
    """Whether ranks along tensor each hold a share of the tokens between the halves of a block."""

    schedule: str | None = None
    """Order in which stages run micro-batches: gpipe, 1f1b, interleaved or zb-h1; gpipe is
    searched where it is asked for alone, since 1f1b keeps less and takes as long."""

    interleave: int | None = None
    """Chunks of layers that each stage holds."""

    micro_batches: int | None = None
    """Micro-batches of a step on each replica."""

    rows: Annotated[int | None, Parameter(name=("--rows", "--micro-batch"))] = None
    """Rows of a micro-batch."""

    recompute: Recompute | None = None
    """What backward computes anew: none, the scores of attention (selective) or whole blocks
    (full)."""

    zero: int | None = None
    """What ranks with the same parameters shard: 1 the optimizer's state, 2 gradients too, 3
    parameters too."""

    precision: str | None = None
    """The dtype of the products, or several with commas between them, for another precision is
    another training; default: bf16, or fp32 where the cluster's devices lack it."""

    def __post_init__(self) -> None:
        check_limits(self)
        if self.zero is not None:
            check_within("--zero", self.zero, 0, 3)

    def given(self) -> dict[str, Any]:
        """What was said, by the names of the fields."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in values if value is not None}


@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """On what a plan is made, and what is told besides."""

    cluster: str | None = None
    """A cluster file, or a name that `steptime cluster list` shows."""

    gpus: Annotated[str | None, Parameter(name=("--gpus", "--ranks"))] = None
    """Ranks in all, or several numbers with commas between them, of which the first table has the
    most; default: as many as the cluster has places for, and what becomes of it on fewer."""

    software: str | None = None
    """What drives the devices: megatron, nanotron, nemo, …; default: megatron."""

    explain: str | None = None
    """Tell all of one layout, the best that is so: as tensor=8,pipeline=4,zero=1."""

    tokens: str | None = None
    """Tokens of the whole training, as 15T: how many days it takes."""

    cost: str | None = None
    """What a device costs in an hour, as 2.5/h: what a step and the training cost."""

    simulate: int = 0
    """Simulate so many of the best layouts too, for a minute at most, and tell how far the
    estimates are from that."""

    def __post_init__(self) -> None:
        check_within("--simulate", self.simulate, 0, _MOST_SIMULATED)


class LayoutOptions(TypedDict, total=False):
    """The fields of PlanOptions as keyword arguments."""

    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    ffn: int | None
    vocabulary: int | None
    batch: int | None
    tokens_per_row: int | None
    data: int | None
    tensor: int | None
    pipeline: int | None
    expert: int | None
    context: int | None
    sequence_parallel: bool | None
    schedule: str | None
    interleave: int | None
    micro_batches: int | None
    rows: int | None
    recompute: Recompute | None
    zero: int | None
    precision: str | None


def with_layout(options: PlanOptions, text: str) -> PlanOptions:
    """The options with the layout that a text fixes, as ``tensor=8,pipeline=4``.

    Raises UsageError for what is no part of a layout, and values that cannot be.
    """
    kinds = {one.name: one.type for one in fields(PlanOptions)}
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        name = name.replace("-", "_")
        name = _ALIKE.get(name, name)
        if not equals or not value:
            raise UsageError(f"--explain has {part.strip()!r}: write NAME=VALUE, as tensor=8")
        if name not in kinds:
            raise UsageError(f"--explain has no {name!r}: {mend(name, kinds)}")
        if name in found:
            raise UsageError(f"--explain says {name} twice: leave one out")
        found[name] = _value(name, value, kinds[name])
    return replace(options, **found)


def _value(name: str, text: str, kind: Any) -> Any:
    if "int" in str(kind):
        number = whole_number(text)
        if number is None:
            raise UsageError(f"--explain has {name}={text}: it must be a whole number")
        return number
    if name == "sequence_parallel":
        if text not in (*_YES, *_NO):
            raise UsageError(f"--explain has {name}={text}: write yes or no")
        return text in _YES
    if name == "recompute" and text not in ("none", "selective", "full"):
        raise UsageError(f"--explain has {name}={text}: write none, selective or full")
    return text


def parse_tokens(text: str | float) -> float:
    """Tokens of a whole training, as ``15T``, ``300B`` or a number; UsageError for none."""
    found = _COUNT.fullmatch(str(text).strip())
    tokens = float(found[1]) * _SCALES[found[2]] if found else -1.0
    if not 1 <= tokens <= _MOST_TOKENS:
        raise UsageError(f"--tokens is {text!r}: write the tokens of the whole training, as 15T")
    return tokens


def parse_price(text: str | float) -> float:
    """What a device costs in an hour, as ``2.5/h`` or a number; UsageError for none."""
    found = _PRICE.fullmatch(str(text).strip())
    price = text if isinstance(text, int | float) else float(found[1]) if found else -1.0
    if not 0 <= price <= _MOST_PRICE:
        raise UsageError(f"--cost is {text!r}: write what a device costs in an hour, as 2.5/h")
    return float(price)
