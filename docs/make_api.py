"""Make docs/api.md of the docstrings of what ``import steptime`` offers.

``python docs/make_api.py`` writes it; tests/test_api_page.py holds that it is current and runs its
examples in a notebook's kernel.
"""

import ast
import inspect
import re
import textwrap
from doctest import DocTestParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import steptime as st
from steptime.api.benchmarks import Benchmark
from steptime.api.differences import Difference
from steptime.api.emulating import Emulated
from steptime.api.exporting import ExportedFiles
from steptime.api.flows import FlowsResult
from steptime.api.generating import Generated
from steptime.api.histories import HistoryResult
from steptime.api.machines import Host, MeasuredCluster
from steptime.api.pictures import Picture
from steptime.api.planning import PlanResult
from steptime.api.proofs import Verification
from steptime.api.results import Run
from steptime.api.scaling import Scaling
from steptime.api.submitting import Submission
from steptime.api.sweeps import Cell, Sweep
from steptime.api.tuning import Tuned
from steptime.data.prepare import Prepared
from steptime.learn.notebook import NotebookLesson
from steptime.train.options import DataOptions, ModelOptions, RunOptions, TrainOptions
from steptime.train.parallel.options import ParallelOptions
from steptime.workloads.sizes import Sizes
from steptime.workloads.spec import StepSpec

PAGE = Path(__file__).with_name("api.md")
FUNCTIONS = (
    ("Simulated", ("model", "cluster", "simulate", "what_ifs", "scale", "plan", "sweep", "flows")),
    ("Collectives", ("show", "verify")),
    (
        "On live ranks",
        (
            *(
                "run",
                "bench",
                "tune",
                "compare",
                "train",
                "proxy",
                "record",
                "step",
                "check",
                "replay",
            ),
            "emulate",
        ),
    ),
    ("This machine", ("topo", "measure")),
    ("Runs on disk", ("load", "diff", "history", "export", "generate")),
    ("On a cluster's scheduler", ("submit",)),
    ("Data to train on", ("prepare",)),
    ("Lessons", ("lesson",)),
)
RESULTS = (
    *(
        Run,
        Scaling,
        PlanResult,
        Sweep,
        Cell,
        FlowsResult,
        Picture,
        Verification,
        Benchmark,
        Tuned,
        Emulated,
        Host,
    ),
    *(MeasuredCluster, Difference, HistoryResult, ExportedFiles, Generated, Submission),
    *(Prepared, NotebookLesson),
)
TRAINING = (ModelOptions, DataOptions, TrainOptions, ParallelOptions, RunOptions)
HEAD = """# steptime in notebooks and scripts

<!-- made of the docstrings by `python docs/make_api.py`: change them, not this page -->

*How do I call it from a notebook or a script?*

```python
import steptime as st
```

The command line and these functions are one door: a verb parses its options into the arguments of
one of these functions, calls it and prints what it returns. Importing steptime loads neither torch
nor NumPy; a function loads what it needs when it is called. In a notebook, results show themselves.
Every example below runs in the tests, in a notebook's kernel.

Errors are `steptime.errors.SteptimeError`; `UsageError`, one of them, says that what was asked for
cannot be. Each is one sentence.

A function of steptime may have the name of a package of steptime: `steptime.simulate` is the
function, and `from steptime.simulate.step import …` still finds the package.
"""
TAIL = """**Read next:** [the lessons](learn.md), [simulate](simulate.md),
[collectives](collectives.md), [the packages as they are](architecture.md).
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, names in FUNCTIONS:
        parts.append(f"## {title}\n")
        parts += [_function(name) for name in names]
    parts.append("## The options of a step\n")
    parts.append("`**step` of `st.simulate` are these, None where nothing is said:\n")
    parts.append(_options(Sizes, StepSpec))
    parts.append("## The options of a training\n")
    parts.append("`**training` of `st.train` are these:\n")
    parts.append(_options(*TRAINING))
    parts.append("## What functions return\n")
    parts += [_class(one) for one in RESULTS]
    return "\n".join(parts).rstrip() + f"\n\n{TAIL}"


def examples() -> list[tuple[str, str]]:
    """Source and expected output of every example, in the order of the page."""
    parser = DocTestParser()
    return [
        (example.source, example.want)
        for _, names in FUNCTIONS
        for name in names
        for example in parser.get_examples(inspect.getdoc(getattr(st, name)) or "")
    ]


def _function(name: str) -> str:
    function = getattr(st, name)
    return "\n".join(
        [
            f"### st.{name}\n",
            f"```python\n{_signature(name, function)}\n```\n",
            _prose(inspect.getdoc(function) or ""),
        ]
    )


def _signature(name: str, function: Any) -> str:
    """The signature, on one line where it fits, otherwise a line for each argument."""
    signature = inspect.signature(function)
    parts = [_short(str(one)) for one in signature.parameters.values()]
    kinds = [one.kind for one in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = _short(inspect.formatannotation(signature.return_annotation)).strip("'")
    line = f"st.{name}({', '.join(parts)}) -> {returned}"
    if len(line) <= 88:
        return line
    return f"st.{name}(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {returned}"


def _short(text: str) -> str:
    """A type without the modules that it is of, and a default that is a function by its name."""
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text)
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    return re.sub(r"\*<class '(\w+)'>", r"Unpack[\1]", text).replace("~", "")


def _prose(doc: str) -> str:
    """A docstring in Markdown: names in code, examples in blocks."""
    blocks = []
    for block in doc.split("\n\n"):
        text = block.replace("``", "`")
        blocks.append(f"```pycon\n{block}\n```" if block.startswith(">>>") else text)
    return "\n\n".join(blocks) + "\n"


def _options(*groups: type) -> str:
    """A list of the fields of some dataclasses but for the model, with what is said of each."""
    lines = [
        f"- `{name}`: {' '.join(words.split())}"
        for group in groups
        for name, words in _told_fields(group).items()
        if name not in ("name", "model")
    ]
    return "\n".join(lines) + "\n"


def _told_fields(of: type) -> dict[str, str]:
    """What stands below each field of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(of))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: told.value.value
        for field, told in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(told, ast.Expr)
        and isinstance(told.value, ast.Constant)
    }


def _class(of: type) -> str:
    lines = [f"### {of.__name__}\n", _prose(inspect.getdoc(of) or "")]
    for name, member in vars(of).items():
        method = inspect.isfunction(member)
        if name.startswith("_") or not (method or isinstance(member, property)):
            continue
        takes = list(inspect.signature(member).parameters)[1:] if method else []
        called = f"({', '.join(takes)})" * method
        lines.append(f"- `.{name}{called}`: {_prose(inspect.getdoc(member) or '').strip()}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
