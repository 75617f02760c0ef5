"""The expected error of a simulated step, from the measured steps that are nearest to it.

What ships are the errors of the estimate of ``predict``. A step that is simulated is off by what
the estimate is off there, and by how far it is from the estimate itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.predict.estimate import estimate
from steptime.predict.expected import expected_error
from steptime.predict.layouts import layouts_of
from steptime.predict.machine import machine_of
from steptime.predict.software import software_named
from steptime.workloads.models import Model, Transformer
from steptime.workloads.spec import StepSpec

_SOFTWARE, _SHARDING = "megatron", "torchtitan"  # the latter where parameters are sharded


@dataclass(frozen=True, kw_only=True)
class Expected:
    """How far a simulated time is expected to be from a measured one, relative to that.

    ``rows``: so many measured steps near it tell, of ``sources``. ``estimate_s``: what the estimate
    says of the step, under ``software``, whose errors on these rows have the mean ``of_estimate``.
    ``driven``: the step is simulated as that software drives its devices.
    """

    error: float
    rows: int
    sources: Sequence[str]
    estimate_s: float
    of_estimate: float
    software: str
    driven: bool = False


def expected_of(model: Model, spec: StepSpec, cluster: Cluster, seconds: float) -> Expected | None:
    """The expected error of a step that is simulated to take so long.

    ``spec``: with every default filled in. None where no measured step is near it.
    """
    if not isinstance(model, Transformer):
        return None
    software = spec.software or (_SHARDING if spec.zero == 3 else _SOFTWARE)
    try:
        layouts = layouts_of([spec])
        machine = machine_of(cluster, software_named(software))
        near = expected_error(model, layouts[0], machine)
        if near is None:
            return None
        estimate_s = float(estimate(model, layouts, machine).step_s[0])
    except UsageError:  # what the estimate does not know has no measured step near it
        return None
    ratio = seconds / estimate_s
    error = hypot(ratio - 1, ratio * near.mape)  # two deviations, neither of which knows the other
    return Expected(
        error=error,
        rows=near.rows,
        sources=list(near.sources),
        estimate_s=estimate_s,
        of_estimate=near.mape,
        software=software,
        driven=spec.software is not None,
    )
