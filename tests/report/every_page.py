"""One page of every kind, each made as its verb makes it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import steptime as st
from cli.command import here
from report.conftest import run_of, simulated_run_of, timeline_of
from report.scale_made import study
from report.typed import record
from report.verb_pages import PAGES as VERB_PAGES
from runs_made import environment, training
from steptime.api.charts import chart
from steptime.report.crossover_page import write_chart
from steptime.report.history_page import write_history
from steptime.report.page import write_page, write_report
from steptime.report.scale_page import write_scale
from steptime.report.subject import Run
from steptime.study.history import history

NAMES = ("server", "replicated", "sharded")


def live(path: Path) -> None:
    """Three strategies, compared on this machine."""
    write_report(path, record(run_of(*NAMES)), timeline_of(*NAMES))


def simulated(path: Path) -> None:
    """All strategies of plain data parallelism, simulated."""
    st.simulate(
        "gpt2-nano",
        "office-10gbe",
        ranks=4,
        strategy="server,replicated,overlapped",
        sensitivity=True,
    ).report(path)


def hybrid(path: Path) -> None:
    """A model cut along three axes, simulated."""
    run = st.simulate("gpt2-124M", "dgx-h100-pod", ranks=32, tensor=4, pipeline=4)
    run.report(path)


def wide(path: Path) -> None:
    """A model on more ranks than have a row each, calls simulated and no messages."""
    axes = {"ranks": 256, "tensor": 8, "pipeline": 4}
    st.simulate("gpt3-13B", "dgx-h100-pod", **axes, fidelity="collective").report(path)


def unfit(path: Path) -> None:
    """A model that no rank can hold."""
    st.simulate("llama3-8B", "dgx-a100", ranks=8, strategy="replicated").report(path)


def several(path: Path) -> None:
    """A measured run and two simulated ones, on one page."""
    made = [record(simulated_run_of("server", "replicated")), record(run_of("replicated"))]
    lines = [replace(timeline_of("server", "replicated"), source="simulated")]
    lines.append(timeline_of("replicated"))
    runs = [
        Run(f"{one.verb}-2026112{at}-180000", one, line)
        for at, (one, line) in enumerate(zip(made, lines, strict=True))
    ]
    write_page(path, runs)


def scale(path: Path) -> None:
    """A study that was measured."""
    write_scale(path, study((1, 2, 4), (1, 2)))


def scale_simulated(path: Path) -> None:
    """A study that was simulated, up to more ranks than fit a screen."""
    words = "scale gpt2-124M --cluster dgx-h100-pod --ranks 1,2,8,16,32"
    done = here(*words.split(), "--out", str(path.parent / "run"), folder=path.parent)
    assert done.code == 0, done.err
    path.write_bytes((path.parent / "run" / "report.html").read_bytes())


def history_of(path: Path) -> None:
    """Two jobs over five revisions, one of which became slower."""
    for number in range(5):
        about = environment(time=f"2026-11-2{number}T18:00:00+00:00", git_revision=f"{number}" * 12)
        slow = 0.1 * (1.06 if number > 2 else 1 + number / 1000)
        training(path.parent / f"fp32-{number}", [slow] * 9, environment=about)
        training(path.parent / f"bf16-{number}", [0.004] * 9, precision="bf16", environment=about)
    (path.parent / "bf16-0" / "run.json").write_text("{")
    write_history(path, history(path.parent).record() | {"environment": environment()})


def crossover(path: Path) -> None:
    """Algorithms of a collective against the size."""
    write_chart(path, chart("all_reduce", ranks=8))


def plan(path: Path) -> None:
    """The best layouts of a model."""
    found = st.plan("llama3-8B", "dgx-h100-pod", gpus=[32, 64], batch=128, tokens_per_row=8192)
    found.report(path)


def plan_unfit(path: Path) -> None:
    """A model that fits no layout."""
    st.plan("llama3-70B", "dgx-a100", batch=64, tokens_per_row=4096).report(path)


def player(path: Path) -> None:
    """Two algorithms, played side by side."""
    st.show("ring", "double_tree", ranks=8).save(path)


PAGES: Mapping[str, Callable[[Path], None]] = {
    "live": live,
    "simulated": simulated,
    "hybrid": hybrid,
    "wide": wide,
    "unfit": unfit,
    "several": several,
    "scale": scale,
    "scale-simulated": scale_simulated,
    "history": history_of,
    "crossover": crossover,
    "plan": plan,
    "plan-unfit": plan_unfit,
    "player": player,
    **VERB_PAGES,
}
"""Who writes a page of each kind to a path; the folder it lies in is empty."""
