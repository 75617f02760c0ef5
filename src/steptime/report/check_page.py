"""The page of a check: a paragraph a finding, with the call sites and stacks of its ranks."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steptime.report.template import write_html
from steptime.words import listed

_Run = Mapping[str, Any]


def write_check(path: Path, run: _Run) -> None:
    """Write the page of ``run``, the JSON of the verb, atomically: one file, no scripts."""
    write_html(path, "check.html", context(run))


def context(run: _Run) -> dict[str, Any]:
    """What the template shows."""
    stacks = run.get("stacks", {})
    return {
        "run": run,
        "headline": _headline(run),
        "alarm": not run["ok"],
        "doubt": _doubt(run),
        "findings": [_finding(one, stacks) for one in run["findings"]],
        "remarks": [_finding(one, stacks) for one in run.get("remarks", ())],
        "command": shlex.join(run["environment"]["command"]),
        "ranks": run.get("ranks"),
        "script": shlex.join(run["command"]),
    }


def _headline(run: _Run) -> str:
    """What was found, the kinds with their ranks."""
    found = run["findings"]
    if not found:
        return "Nothing was found"
    told = [f"{one['kind'].capitalize()}: {_ranks(one)}" for one in found[:2]]
    more = f", and {len(found) - 2} more" if len(found) > 2 else ""
    return f"{listed(told)}{more}"


def _doubt(run: _Run) -> str:
    """How the job ended, and what the judgement rests on."""
    if run.get("ended_by_check"):
        return "The job stood still for certain and was ended."
    code = run.get("exit_code")
    if code is None:
        return "Judged by what its ranks left; nothing was run."
    told = f"The script ran to its end and left with {code}."
    nothing = " What did not happen in this run cannot be found in it."
    return told + nothing * (not run["findings"])


def _finding(one: _Run, stacks: Mapping[str, Any]) -> dict[str, Any]:
    facts = []
    if one.get("since_s") is not None:
        facts.append(f"for {one['since_s']:.1f} s")
    if one.get("gain") is not None:
        facts.append(f"{one['gain']:.0%} of the step")
    return {
        "kind": one["kind"],
        "ranks": ", ".join([_ranks(one), *facts]),
        "what": one["what"],
        "places": [{"via": "", **place} for place in one["places"]],
        "mend": one["mend"],
        "stacks": [(rank, stacks[str(rank)]) for rank in one["ranks"] if str(rank) in stacks],
    }


def _ranks(one: _Run) -> str:
    ranks = one["ranks"]
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"
