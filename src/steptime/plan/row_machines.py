"""The machine that a measured row ran on: its devices, and what joins them."""

import re
from dataclasses import dataclass, replace
from functools import cache

from steptime.cluster import cluster_named, device_named
from steptime.cluster.what_if import Change, changed
from steptime.plan.recipes import Recipe
from steptime.predict.machine import Machine
from steptime.predict.software import Software, software_named, software_names
from steptime.simulate.nccl import network_of

_ANY_NUMBER = 1 << 20
_DEFAULT = "megatron"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of GPU as texts call it, its device, and the shipped cluster that joins such.

    ``inside``: times the cluster's rate within a host; ``domain``: devices that reach each other
    at it, 0 for those of a host.
    """

    pattern: str
    device: str
    cluster: str
    inside: float = 1.0
    domain: int = 0


_A100, _H100, _H200, _B200 = "dgx-a100-pod", "dgx-h100-pod", "hgx-h200-pod", "hgx-b200-pod"
_PCIE = 0.1  # of what NVLink gives: 16 lanes of the fifth generation

KINDS = (
    Kind(pattern=r"a[18]00.*pcie", device="a100-pcie", cluster=_A100, inside=_PCIE),
    Kind(pattern=r"a800", device="a100-80", cluster=_A100, inside=400 / 600),
    Kind(pattern=r"a100.*40", device="a100-40", cluster=_A100),
    Kind(pattern=r"a100", device="a100-80", cluster=_A100),
    Kind(pattern=r"h[18]00.*pcie", device="h100-pcie", cluster=_H100, inside=_PCIE),
    Kind(pattern=r"h100.*nvl\b", device="h100-nvl", cluster=_H100, inside=_PCIE),
    Kind(pattern=r"h800", device="h100-sxm", cluster=_H100, inside=400 / 900),
    Kind(pattern=r"h100.*(hbm2e|9[46])", device="h100-96", cluster=_H100),
    Kind(pattern=r"h100", device="h100-sxm", cluster=_H100),
    Kind(pattern=r"h200", device="h200", cluster=_H200),
    Kind(pattern=r"gb200", device="gb200", cluster=_B200, domain=72),
    Kind(pattern=r"gb300", device="gb300", cluster=_B200, domain=72),
    Kind(pattern=r"b200", device="b200", cluster=_B200),
    Kind(pattern=r"b300", device="gb300", cluster=_B200),
    # Seven links of 64 GB/s to the others of a host, of which RCCL's rings reach some 310.
    Kind(pattern=r"mi300x", device="mi300x", cluster=_H200, inside=310 / 366),
    Kind(pattern=r"mi325x", device="mi325x", cluster=_H200, inside=310 / 366),
    Kind(pattern=r"mi35[05]x", device="mi355x", cluster=_H200),
)
"""In the order in which they are tried."""


def machine_for(gpu: str, recipe: Recipe, text: str) -> Machine | str:
    """The machine of a row by the name of its GPU, or why there is none.

    ``text``: the model, precision and note, of which the recipe may tell the software.
    """
    name = gpu.casefold()
    kind = next((one for one in KINDS if re.search(one.pattern, name)), None)
    if kind is None:
        return f"no device of ours is {gpu or 'a GPU without a name'}"
    differs = any(word in text.casefold() for word in recipe.other_words)
    wanted = recipe.other if recipe.other and differs else recipe.software
    software = wanted if wanted in software_names() else _DEFAULT
    return _machine(kind, recipe.between, recipe.trees, software)


@cache
def _machine(kind: Kind, between: float, trees: bool, software: str) -> Machine:
    cluster = cluster_named(kind.cluster)
    within = len(cluster.inside.links.names) * cluster.hosts if cluster.inside else 0
    faster = Change("bandwidth", factor=kind.inside)
    cluster = changed(cluster, faster, slice(0, within))
    if between:
        cluster = changed(cluster, Change("bandwidth", value=between), slice(within, None))
    network = network_of(cluster)
    library = network.library and replace(network.library, trees=trees)
    return Machine(
        name=kind.cluster,
        device=device_named(kind.device),
        devices=_ANY_NUMBER,
        network=replace(network, host_devices=kind.domain or network.host_devices, library=library),
        software=_software(software),
    )


@cache
def _software(name: str) -> Software:
    return software_named(name)
