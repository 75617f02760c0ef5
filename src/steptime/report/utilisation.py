"""What a step uses of its devices, and how far it may be from a measured one, in words."""

from collections.abc import Iterator

from steptime.runs.expected import Expected
from steptime.runs.utilisation import Utilisation
from steptime.timeline import Source
from steptime.units import format_flops, format_seconds

UNKNOWN = "No measured step is near this, so nobody knows how far it may be off."

_APART, _CLOSE = 2.0, 0.05
"""A simulated step is far from the estimate where the error to expect is so many times the
estimate's own, or more than that of one which is close."""


def share(part: float | None) -> str | None:
    """MFU or HFU in percent with a decimal, without the sign; None where there is none."""
    return None if part is None else f"{100 * part:.1f}"


def rates_sentence(used: Utilisation, of: str = "") -> str:
    """MFU, HFU and rates of each device; ``of``: the strategy, where there are several."""
    each = (
        f"{format_flops(1e12 * used.tflops_per_device)} of the model and "
        f"{used.tokens_per_s_per_device:,.0f} tokens/s a device"
    )
    whose = f" of {of}" if of else ""
    if used.mfu is None or used.hfu is None:
        return f"No MFU{whose}, for the peak of the devices here is not known: {each}."
    both = f"MFU{whose} {share(used.mfu)} %, HFU {share(used.hfu)} %"
    return f"{both}: {each}."


def formula_sentence(used: Utilisation) -> str:
    """How MFU is computed, with its numbers; of a step that has one."""
    work = used.work
    per_token = format_flops(work.flops_per_token).removesuffix("/s")
    told = f"FLOP a token: {work.formula}, here {per_token}"
    peak = format_flops(work.peak_flops or 0.0)
    return (
        f"MFU = tokens × FLOP a token / (step × {work.devices:,} × {peak}), the {work.precision} "
        f"peak of {work.device}; {told}. HFU adds what is recomputed."
    )


def expected_sentence(expected: Expected | None) -> str:
    """How far a simulated step may be from a measured one, and who says so."""
    if expected is None:
        return UNKNOWN
    apart = not expected.driven and expected.error > _APART * max(expected.of_estimate, _CLOSE)
    closer = f" --software {expected.software} simulates what that makes of it." if apart else ""
    return (
        f"Expected error {100 * expected.error:.0f} %: the estimate is "
        f"{format_seconds(expected.estimate_s)} under {expected.software}, and was off by "
        f"{100 * expected.of_estimate:.0f} % on the {expected.rows} measured steps nearest to this "
        f"({', '.join(expected.sources)}).{closer}"
    )


def used_lines(
    used: Utilisation | None, expected: Expected | None, source: Source, of: str = ""
) -> Iterator[str]:
    """All of these sentences; none of a model without tokens."""
    if used is None:
        return
    yield rates_sentence(used, of)
    if used.mfu is not None:
        yield formula_sentence(used)
    if source == "simulated":
        yield expected_sentence(expected)
