"""In words: what a layout is, what bounds it, and why another one loses against it."""

from collections.abc import Mapping

from steptime.runs.plan import LayoutFigures
from steptime.units import format_bytes, format_seconds

WORDS = {
    "products": "matrix products",
    "attention": "attention",
    "memory-bound": "memory-bound kernels",
    "launches": "launches",
    "recompute": "recomputing",
    "contention": "contention",
    "tensor": "tensor calls",
    "context": "context calls",
    "expert": "expert calls",
    "data": "data-parallel calls",
    "pipeline": "messages between stages",
    "bubble": "bubble",
    "optimizer": "the optimizer",
    "host": "what a step costs once",
    "imbalance": "waiting for the slowest",
}
"""A term of an account within a sentence."""

_TOLD = 3
_LEAST = 0.02  # of the step: a term below that bounds nothing
_ALIKE = 5e-4  # relative: steps that differ by less are as fast
_SHARE = 0.2  # of the largest difference: what is less explains nothing


def word(term: str) -> str:
    """A term of an account in words."""
    return WORDS.get(term, term)


def bound_of(terms: Mapping[str, float]) -> str:
    """The largest terms, as ``products 63 %, bubble 12 %``."""
    step = sum(terms.values()) or 1.0
    shares = sorted(((seconds / step, name) for name, seconds in terms.items()), reverse=True)
    told = [f"{name} {100 * share:.0f} %" for share, name in shares if share >= _LEAST]
    return ", ".join(told[:_TOLD])


def why_second(best: LayoutFigures, second: LayoutFigures) -> str:
    """One sentence: how the runner-up differs from the best, and which terms make it lose."""
    changed = _changes(best, second)
    opening = f"The runner-up, with {changed},"
    longer = second.step_time_s / best.step_time_s - 1
    if abs(longer) < _ALIKE:
        more = second.memory_bytes - best.memory_bytes
        kept = f", but keeps {format_bytes(more)} more" if more > 0 else ""
        return f"{opening} is as fast{kept}."
    names = {**best.terms, **second.terms}
    gaps = {n: second.terms.get(n, 0.0) - best.terms.get(n, 0.0) for n in names}
    most = max(map(abs, gaps.values()))
    told = {n: gap for n, gap in gaps.items() if abs(gap) >= _SHARE * most}
    losses = sorted((n for n in told if told[n] > 0), key=lambda n: -told[n])
    gains = sorted((n for n in told if told[n] < 0), key=lambda n: told[n])
    text = f"{opening} takes {100 * longer:.1f} % longer: "
    text += " and ".join(f"{format_seconds(told[n])} more {word(n)}" for n in losses[:2])
    if gains:
        text += f", for {format_seconds(-told[gains[0]])} less {word(gains[0])}"
    return f"{text}."


def _changes(best: LayoutFigures, second: LayoutFigures) -> str:
    """What of the runner-up differs, in words."""
    pairs = [
        (name, best.axes.get(name, 1), size)
        for name, size in second.axes.items()
        if size != best.axes.get(name, 1)
    ]
    fields = {
        "schedule": "schedule",
        "interleave": "chunks a stage",
        "micro_batch": "rows a micro-batch",
        "recompute": "recompute",
        "zero": "ZeRO",
        "precision": "precision",
    }
    pairs += [
        (said, getattr(best, name), getattr(second, name))
        for name, said in fields.items()
        if getattr(best, name) != getattr(second, name)
    ]
    told = [f"{name} {other} in place of {own}" for name, own, other in pairs]
    if best.sequence_parallel != second.sequence_parallel:
        told.append(f"{'' if second.sequence_parallel else 'no '}sequence parallelism")
    if not told:
        return "the same layout"
    return ", ".join(told[:-1]) + " and " * (len(told) > 1) + told[-1]
