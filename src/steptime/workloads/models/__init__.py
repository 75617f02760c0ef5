"""Models by their dimensions, from which tensors, parameters, FLOP and activations are computed.

A family of models is one file of ``families``, a model of a family one of ``presets`` or a user's.
"""

from steptime.workloads.models.dimensions import model_by_dimensions, with_dimensions
from steptime.workloads.models.family import Base, Family, Model, transformer_of
from steptime.workloads.models.named import is_model_file, model_named, model_names
from steptime.workloads.models.network import Network
from steptime.workloads.models.parts import Part, Tensor, Unit
from steptime.workloads.models.transformer import Architecture, Latent, Transformer

__all__ = [
    "Architecture",
    "Base",
    "Family",
    "Latent",
    "Model",
    "Network",
    "Part",
    "Tensor",
    "Transformer",
    "Unit",
    "is_model_file",
    "model_by_dimensions",
    "model_named",
    "model_names",
    "transformer_of",
    "with_dimensions",
]
