"""Mixed precision: what is computed and kept in which dtype, and the loss scaling that fp16 needs.

Micikevicius et al., "Mixed Precision Training" (arXiv 1710.03740): compute in half precision, keep
the weights that the optimizer updates and its state in fp32. bf16 has the range of fp32 and needs
no scaling; fp16 has not.
"""

from dataclasses import dataclass, replace
from typing import get_args

import torch

from steptime.dtypes import BY_SHORT_NAME
from steptime.workloads.precision import DtypeName, PrecisionName, Rounding, element_dtype

DTYPES: dict[DtypeName, torch.dtype] = {
    name: getattr(torch, BY_SHORT_NAME[name].name) for name in get_args(DtypeName)
}


@dataclass(frozen=True)
class Precision:
    """Dtypes: ``compute`` of weights and activations, ``reduce`` of communicated gradients.

    ``state``: of the weights that the optimizer updates and of its moments, computed in fp32 and
    rounded when they are stored: weights as ``rounding`` says, moments to the nearest.
    """

    name: PrecisionName
    compute: torch.dtype
    reduce: torch.dtype
    state: torch.dtype = torch.float32
    rounding: Rounding = "nearest"

    @property
    def scaled(self) -> bool:
        """Whether loss scaling is needed, since small gradients would vanish."""
        return torch.float16 in (self.compute, self.reduce)

    @property
    def fp8(self) -> bool:
        """Whether the products of blocks are those of fp8."""
        return self.name == "fp8-emulated"


def precision_of(
    name: PrecisionName, reduce: DtypeName, rounding: Rounding = "nearest"
) -> Precision:
    """The precision called ``name`` whose gradients are communicated in ``reduce``."""
    compute = DTYPES[element_dtype(name)]
    state = compute if name == "bf16-params" else torch.float32
    return Precision(name, compute, DTYPES[reduce], state, rounding)


_LEAST_SCALE = 2.0**-24


@dataclass(frozen=True)
class LossScale:
    """The factor on the loss that lifts fp16 gradients into range, as torch.amp.GradScaler has it.

    Halves when a step overflows, which is then skipped; doubles after ``patience`` good steps in a
    row. Below 1 it goes for a loss whose gradients are beyond fp16 unscaled.
    """

    scale: float = 65536.0
    good_steps: int = 0
    patience: int = 2000

    def after(self, overflowed: bool) -> "LossScale":
        """The scale for the next step."""
        if overflowed:
            return replace(self, scale=max(self.scale / 2, _LEAST_SCALE), good_steps=0)
        if self.good_steps + 1 >= self.patience:
            return replace(self, scale=self.scale * 2, good_steps=0)
        return replace(self, good_steps=self.good_steps + 1)
