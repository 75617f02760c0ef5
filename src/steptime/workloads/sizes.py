"""Sizes: what can be told of a model beside its name, for every verb that takes one."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The dimensions of a model that are told; None where it keeps its own."""

    layers: int | None = None
    """Layers, if not the model's."""

    hidden: int | None = None
    """Width of the residual stream, if not the model's."""

    heads: int | None = None
    """Attention heads a block, if not the model's."""

    kv_heads: int | None = None
    """Heads of keys and values, if not the model's; where it has one for each head: --heads."""

    ffn: int | None = None
    """Width of the MLP, if not the model's; where that is 4 times the hidden one: 4 × --hidden."""

    vocabulary: int | None = None
    """Tokens in the vocabulary, if not the model's."""

    @property
    def sizes(self) -> dict[str, int]:
        """Those that are told, by the names of DIMENSIONS."""
        told = {name: getattr(self, name) for name in DIMENSIONS}
        return {name: size for name, size in told.items() if size is not None}


DIMENSIONS = tuple(one.name for one in fields(Sizes))
"""What can be told of a model, by the names of its options."""
