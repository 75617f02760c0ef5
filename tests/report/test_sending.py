"""What ranks send over a step, where calls were simulated: all bytes, each within its call."""

from dataclasses import replace

import numpy as np
import pytest

import steptime as st
from steptime.report.section import Page
from steptime.report.sections.links import link_figures
from steptime.report.sending import BINS, sending_of
from steptime.report.subject import Run, Subject
from steptime.timeline import Phase


@pytest.fixture(scope="module")
def page() -> Page:
    """A model cut along three axes on more ranks than a timeline holds."""
    axes = {"ranks": 128, "tensor": 4, "pipeline": 4}
    run = st.simulate("gpt2-124M", "dgx-h100-pod", **axes, fidelity="collective")
    return Page([Run("run", run.record, run.timeline)])


@pytest.fixture(scope="module")
def subject(page: Page) -> Subject:
    return page.first


def test_every_byte_is_sent_once(subject: Subject) -> None:
    sending = sending_of(subject)
    assert sending is not None
    assert sending.axes[0] == "tensor"
    assert {"data", "pipeline"} < set(sending.axes)
    each = sending.rates.sum() * sending.width
    assert each == pytest.approx(np.mean(subject.entry.bytes_sent_per_rank), rel=1e-3)


def test_gradients_are_sent_while_a_call_of_them_is_under_way(subject: Subject) -> None:
    sending = sending_of(subject)
    assert sending is not None
    assert subject.timeline is not None
    line = subject.timeline
    steps = line.steps_named(subject.step)
    last = steps[steps["step"] == 1]
    rows = line.intervals
    calls = rows[(rows["step"] == 1) & (rows["stream"] == line.streams.index("data"))]
    calls = calls[(calls["phase"] == Phase.COMMUNICATION) & (calls["bytes"] > 8)]
    first = (np.maximum(calls["start"], calls["ready"]).min() - last["start"].min()) / sending.width
    rate = sending.rates[sending.axes.index("data")]
    assert not rate[: int(first)].any()
    assert rate[int(first) :].any()
    assert rate.shape == (BINS,)


def test_the_figure_says_that_nobody_knows_when_a_link_is_used(page: Page) -> None:
    (figure,) = link_figures(page.subjects)
    assert figure is not None
    assert "nobody knows when a link is used" in figure["note"]
    assert "Not shown is less than 0.1\u00a0%, along tensor+pipeline" in figure["note"]
    (heat,) = figure["data"]
    assert {max(row) for row in heat["z"]} == {1.0}
    assert [text.partition("<")[0] for text in figure["layout"]["yaxis"]["ticktext"]] == [
        of[0] for of in heat["customdata"]
    ]


def test_without_the_calls_or_their_kinds_nobody_can_tell(subject: Subject) -> None:
    assert sending_of(replace(subject, entry=replace(subject.entry, calls=()))) is None
    some = replace(subject, entry=replace(subject.entry, calls=subject.entry.calls[:1]))
    assert sending_of(some) is None
    run = replace(subject.run, timeline=None)
    assert sending_of(replace(subject, run=run)) is None
