"""Models by their dimensions, from which tensors, parameters, FLOP and activations are computed.

A family of models is one file of ``families``.
"""

from steptime.workloads.models.family import (
    Family,
    Model,
    model_named,
    model_names,
    transformer_of,
)
from steptime.workloads.models.network import Network
from steptime.workloads.models.parts import Part, Tensor, Unit
from steptime.workloads.models.transformer import Architecture, Transformer

__all__ = [
    "Architecture",
    "Family",
    "Model",
    "Network",
    "Part",
    "Tensor",
    "Transformer",
    "Unit",
    "model_named",
    "model_names",
    "transformer_of",
]
