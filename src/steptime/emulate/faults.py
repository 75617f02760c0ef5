"""Faults: what happens to links while a command runs on them: cut, slowed, losing packets."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.units import parse_percentage, parse_seconds

FORMS = "host3 down at 10s for 5s; link host1 rate/10 at 20s; loss host2 1% at 30s"

Kind: TypeAlias = Literal["down", "rate", "loss"]


_WHEN = r"\s+at\s+(?P<at>\S+)(?:\s+for\s+(?P<lasts>\S+))?"
_KINDS: dict[Kind, re.Pattern[str]] = {
    "down": re.compile(r"(?P<host>\w+)\s+down" + _WHEN),
    "rate": re.compile(r"link\s+(?P<host>\w+)\s+rate\s*/\s*(?P<amount>\d+(?:\.\d+)?)" + _WHEN),
    "loss": re.compile(r"loss\s+(?P<host>\w+)\s+(?P<amount>\d+(?:\.\d+)?%)" + _WHEN),
}


@dataclass(frozen=True)
class Fault:
    """What happens to one host's link, both ways, ``at_s`` seconds after the command's start.

    ``amount``: by what its rate is divided, or which share of packets is lost. It ends after
    ``lasts_s`` seconds; None: not before the command. All are seconds of this machine, whatever
    the time dilation.
    """

    kind: Kind
    host: str
    at_s: float
    lasts_s: float | None = None
    amount: float = 0.0

    def __str__(self) -> str:
        """As a person would tell it, without the times."""
        if self.kind == "down":
            return f"{self.host} cut off"
        if self.kind == "rate":
            return f"link of {self.host} at 1/{self.amount:g} of its rate"
        return f"link of {self.host} loses {100 * self.amount:g} % of its packets"


def parse_faults(text: str) -> tuple[Fault, ...]:
    """The faults of a text such as FORMS, in the order of their times.

    Raises UsageError where a part is none of these forms.
    """
    parts = [part.strip() for part in text.split(";")]
    return tuple(sorted((_fault(part) for part in parts if part), key=lambda fault: fault.at_s))


def _fault(text: str) -> Fault:
    for kind, form in _KINDS.items():
        if found := form.fullmatch(text):
            words = found.groupdict()
            return Fault(
                kind=kind,
                host=words["host"],
                at_s=parse_seconds(words["at"]),
                lasts_s=parse_seconds(words["lasts"]) if words["lasts"] else None,
                amount=_amount(kind, words.get("amount") or "0"),
            )
    raise UsageError(f"--faults has {text!r}: write, with semicolons between, '{FORMS}'")


def _amount(kind: Kind, text: str) -> float:
    if kind == "loss":
        return parse_percentage(text, "the loss of --faults")
    amount = float(text)
    if kind == "rate" and not 1 <= amount <= 1e6:
        raise UsageError(f"--faults divides a rate by {text}: give a number from 1 to a million")
    return amount
