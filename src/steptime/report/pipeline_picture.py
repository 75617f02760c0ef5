"""The picture of a pipeline: a row a stage, time to the right, each pass a box."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from xml.sax.saxutils import escape

from steptime.report.palette import GREEN, ORANGE, SKY
from steptime.report.pipeline import kept, label, title, verdict
from steptime.workloads.pipelines import Kind, PipelineTimeline

_ROW, _LEFT, _TOP, _MARGIN = 30, 76, 100, 16  # pixels
_WIDEST, _NARROWEST, _WISHED = 28, 2, 1200  # pixels of a slot, at most and least, and of the step
_CHARACTER = 7  # pixels
_COLORS: Mapping[Kind, str] = MappingProxyType(
    {"forward": SKY, "backward": ORANGE, "backward input": ORANGE, "backward weight": GREEN}
)
_MEANINGS: Mapping[Kind, str] = MappingProxyType(
    {
        "forward": "forward",
        "backward": "backward",
        "backward input": "backward, gradient of the input",
        "backward weight": "backward, gradient of the weights",
    }
)
LEGEND = [(kind, color, _MEANINGS[kind]) for kind, color in _COLORS.items()]
"""Each kind of pass with its colour and what it is."""

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c1c1c }
.small { font-size: 11px; fill: #5a5a5a }
.title { font-size: 15px; font-weight: 600 }
.on { text-anchor: middle; fill: #111111; font-size: 11px }
.idle { fill: #ececec }
.paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e8e8e8 }
  .small { fill: #a8a8a8 }
  .on { fill: #111111 }
  .idle { fill: #2a2f35 }
  .paper { fill: #14171a }
}
"""


def picture(shown: PipelineTimeline) -> str:
    """The picture as SVG, for light and dark pages."""
    slot = _slot_width(shown)
    bottom = _TOP + _ROW * len(shown.stages)
    width = max(_LEFT + slot * shown.slots + _MARGIN, 860)
    height = bottom + 40
    body = [
        f'<rect class="paper" width="{width}" height="{height}"/>',
        _text(_MARGIN, 28, title(shown.pipeline), "title"),
        _text(_MARGIN, 50, shown.pipeline.schedule.summary),
        _text(_MARGIN, 68, verdict(shown), "small"),
        _text(_MARGIN, 85, kept(shown), "small"),
        *_rows(shown, slot, _MARGIN, _TOP),
        *_legend(shown, bottom + 24),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title(shown.pipeline))}">'
        f"<style>{_STYLE}</style>{''.join(body)}</svg>\n"
    )


def bare_picture(shown: PipelineTimeline) -> str:
    """The rows alone as SVG, for a page that has the words and the looks of their classes."""
    slot = _slot_width(shown)
    width, height = _LEFT + slot * shown.slots + 2, _ROW * len(shown.stages)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title(shown.pipeline))}">{"".join(_rows(shown, slot, 0, 0))}</svg>'
    )


def _slot_width(shown: PipelineTimeline) -> int:
    return max(_NARROWEST, min(_WIDEST, _WISHED // shown.slots))


def _rows(shown: PipelineTimeline, slot: int, margin: int, top: int) -> Iterator[str]:
    chunks = shown.pipeline.shape.chunks
    for stage, slots in enumerate(shown.stages):
        y = top + _ROW * stage
        yield _text(margin, y + 19, f"stage {stage}")
        wide = slot * shown.slots
        yield f'<rect class="idle" x="{_LEFT}" y="{y + 3}" width="{wide}" height="{_ROW - 6}"/>'
        for run, start, end in slots:
            x, wide, words = _LEFT + slot * start, slot * (end - start), label(run, chunks)
            gap = 1 if slot > 4 else 0
            yield (
                f'<rect x="{x}" y="{y + 3}" width="{wide - gap}" height="{_ROW - 6}" '
                f'fill="{_tint(_COLORS[run.kind], run.chunk / chunks)}"/>'
            )
            if _CHARACTER * len(words) < wide:
                yield _text(x + (wide - gap) / 2, y + 19, words, "on")


def _legend(shown: PipelineTimeline, y: int) -> Iterator[str]:
    x, kinds = _MARGIN, {run.kind for run in shown.pipeline.passes(0)}
    for kind, color in _COLORS.items():
        if kind in kinds:
            yield f'<rect x="{x}" y="{y - 11}" width="14" height="14" fill="{color}"/>'
            yield _text(x + 20, y, _MEANINGS[kind], "small")
            x += 44 + _CHARACTER * len(_MEANINGS[kind])
    yield f'<rect class="idle" x="{x}" y="{y - 11}" width="14" height="14"/>'
    yield _text(x + 20, y, "idle", "small")
    if shown.pipeline.shape.chunks > 1:
        yield _text(x + 64, y, "later chunks are paler", "small")


def _tint(color: str, part: float) -> str:
    """A colour on its way to white by 70 % of ``part``."""
    channels = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * 0.7 * part):02x}" for c in channels)


def _text(x: float, y: float, words: str, look: str = "") -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}>{escape(words)}</text>'
