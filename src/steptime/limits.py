"""The limits of what can be asked for: each lower bound and its upper one, for every door.

An upper bound lies far above what anybody runs. It is there so that a slip of the finger is refused
at once, rather than to be counted through for hours.
"""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from steptime.errors import UsageError

MOST_RANKS = 1 << 20
MOST_RANKS_HERE = 1 << 10
"""Ranks that one command starts on this host: each is a process."""

MOST_BYTES = 1 << 60
MOST_SECONDS = 1e9
MOST_PER_S = 1e24  # bytes, bits or FLOP in a second
LEAST_PER_S = 1.0

LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        **dict.fromkeys(("ranks", "data", "tensor", "pipeline", "expert"), (1, MOST_RANKS)),
        **dict.fromkeys(("hosts", "ranks_per_host"), (1, MOST_RANKS)),
        **dict.fromkeys(("nodes", "ranks_per_node"), (1, MOST_RANKS)),
        **dict.fromkeys(("gpus_per_node", "cpus_per_rank"), (1, 1 << 12)),
        **dict.fromkeys(("heads", "kv_heads", "experts", "interleave", "acc_scale"), (1, 1 << 16)),
        "layers": (1, 1 << 13),
        **dict.fromkeys(("stages", "microbatches", "micro_batches", "accumulate"), (1, 1 << 20)),
        **dict.fromkeys(("batch", "rows", "tokens", "context", "vocabulary"), (1, 1 << 40)),
        **dict.fromkeys(("hidden", "ffn"), (1, 1 << 24)),
        **dict.fromkeys(("val_every", "val_batches", "checkpoint_every"), (1, 1 << 40)),
        "keep_checkpoints": (1, 1 << 20),
        **dict.fromkeys(("steps", "iters"), (1, 1 << 40)),
        **dict.fromkeys(("warmup", "warmup_iters", "lr_warmup", "check"), (0, 1 << 40)),
        "threads": (1, 1 << 12),
        "blocks": (1, 1 << 16),
        "bucket": (1, MOST_BYTES),
        "seed": (0, (1 << 64) - 1),
    }
)
"""The least and the most of a number, by the name of its option."""


_DIGITS = 30  # a number of more is beyond every limit, and Python converts no more than 4,300


def whole_number(text: str) -> int | None:
    """The number that a text of digits says, None where it is none.

    Of very many digits the first are told, which are beyond every limit too.
    """
    return int(text[:_DIGITS]) if text.isdecimal() else None


def check_limits(options: Any) -> None:
    """Raise UsageError where a field of the dataclass ``options`` is beyond its limits.

    What is no number is not looked at: None, where nothing was asked for.
    """
    for one in fields(options):
        value = getattr(options, one.name)
        if isinstance(value, int | float) and one.name in LIMITS:
            check_within(f"--{one.name.replace('_', '-')}", value, *LIMITS[one.name])


def check_within(option: str, value: float, least: float, most: float) -> None:
    """Raise UsageError where the value of an option is below ``least`` or above ``most``."""
    if not value >= least:  # nor is what is no number
        raise UsageError(f"{option} is {value}: it must be at least {least}")
    if value > most:
        raise UsageError(f"{option} is {value}: it must be at most {most:,}")
