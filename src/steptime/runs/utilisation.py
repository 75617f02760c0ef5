"""Utilisation: which part of its devices' peak a step of a model uses.

MFU counts what the model needs: forward and backward once, 6 FLOP a parameter that multiplies and
12 · layers · hidden · row for attention, each token (Chowdhery et al., PaLM, arXiv 2204.02311,
appendix B; of a GPT that is 72·B·L·s·h²·(1 + s/6h + V/12hL) a step, Narayanan et al., arXiv
2104.04473). HFU adds what recomputation computes again (Korthikanti et al., arXiv 2205.05198).
"""

from dataclasses import dataclass

from steptime.cluster import Device
from steptime.workloads.models import Model, Transformer
from steptime.workloads.spec import StepSpec

FORMULA = "6 a parameter that multiplies + 12 · layers · hidden · row"
"""The FLOP of a token in MFU, in words, of models whose heads are as wide as they are."""


def formula_of(model: Transformer) -> str:
    """The FLOP of a token in MFU, in words: attention is over its heads, and within its window."""
    attention = model.units[1].parts[0]
    columns = attention.attending // 4  # two FLOP a column of the queries, and two of the values
    wide = "hidden" if columns == model.hidden else f"{columns:,} columns of heads"
    told = FORMULA.replace("hidden", wide)
    if not model.window:
        return told
    some = model.layers - len(model.whole_layers)
    where = "each layer" if some == model.layers else f"{some} of {model.layers} layers"
    return f"{told}, in {where} the last {model.window:,} of it"


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """What a step of a model of tokens computes, and on what.

    ``model_flops`` of forward and backward, ``hardware_flops`` with what is computed again.
    ``peak_flops``: FLOP/s of one of ``devices`` in ``precision``, None where nobody knows it.
    ``formula``: the FLOP of a token, in words.
    """

    tokens: int
    model_flops: float
    hardware_flops: float
    devices: int
    precision: str
    device: str | None = None
    peak_flops: float | None = None
    formula: str = FORMULA

    @property
    def flops_per_token(self) -> float:
        """FLOP of the model for a token."""
        return self.model_flops / self.tokens


@dataclass(frozen=True, kw_only=True)
class Utilisation:
    """What a step of some seconds makes of its devices.

    ``tflops_per_device``: 10^12 FLOP/s of the model on each device; ``mfu`` and ``hfu`` in parts of
    the peak, None where that is not known. ``work``: what they are of.
    """

    tokens_per_s_per_device: float
    tflops_per_device: float
    mfu: float | None = None
    hfu: float | None = None
    work: StepWork


def step_work(model: Model, spec: StepSpec, device: Device | None) -> StepWork | None:
    """What a step of ``model`` computes, on a kind of device if that is known.

    ``spec``: with every default filled in. None of a model without tokens.
    """
    if not isinstance(model, Transformer) or not (spec.batch and spec.tokens and spec.ranks):
        return None
    tokens, precision = spec.batch * spec.tokens, str(spec.precision)
    needed = tokens * model.flops_per_token(spec.tokens)
    return StepWork(
        tokens=tokens,
        model_flops=needed,
        hardware_flops=needed + tokens * _again(model, spec),
        devices=spec.ranks,
        precision=precision,
        device=device.name if device else None,
        peak_flops=device.flops.get(precision) if device else None,
        formula=formula_of(model),
    )


def utilisation(work: StepWork | None, seconds: float) -> Utilisation | None:
    """The utilisation of devices by a step that takes so long; None where nothing is known."""
    if work is None or seconds <= 0:
        return None
    whole = seconds * work.devices
    peak = work.peak_flops * whole if work.peak_flops else None
    return Utilisation(
        tokens_per_s_per_device=work.tokens / whole,
        tflops_per_device=work.model_flops / whole / 1e12,
        mfu=work.model_flops / peak if peak else None,
        hfu=work.hardware_flops / peak if peak else None,
        work=work,
    )


def _again(model: Transformer, spec: StepSpec) -> float:
    """FLOP that backward computes again for a token: of whole blocks, or of attention's scores."""
    row = spec.tokens or model.context
    blocks = [unit for unit in model.units if any(part.attending for part in unit.parts)]
    if spec.recompute == "full":
        return sum(unit.forward_flops(row) for unit in blocks)
    if spec.recompute == "selective":
        return sum(part.score_flops(row) for unit in blocks for part in unit.parts)
    return 0.0
