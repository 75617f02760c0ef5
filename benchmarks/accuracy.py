"""Make docs/accuracy.md, its picture and the errors that predictions are expected to have.

    python benchmarks/accuracy.py              the tables, docs/accuracy.svg, predict/errors.csv
    python benchmarks/accuracy.py --held-out nanotron nemo …
                                               and of these fits without a model or a source
    python benchmarks/accuracy.py --check      says whether any of them would change

Run it after every change of what is predicted: a test holds that the errors which ship are those of
the predictions. The text of the page stays; what stands between <!-- NAME --> and <!-- end --> is
made anew. Everything is computed and the same everywhere; only --held-out takes minutes.
"""

import argparse
import csv
import io
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill

import fit_predictions as fits
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from steptime.plan.metrics import regret, spearman
from steptime.plan.recipes import recipe_of
from steptime.plan.validate import (
    Judged,
    Summary,
    Validation,
    step_with_error,
    summary_of,
    validate,
)
from steptime.predict.account import TERMS
from steptime.predict.expected import COLUMNS, shipped_errors
from steptime.predict.layouts import PRECISIONS
from steptime.predict.software import software_named
from steptime.units import format_seconds

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
PICTURE = ROOT / "docs" / "accuracy.svg"
ERRORS = ROOT / "src" / "steptime" / "predict" / "errors.csv"
WORST = 20
SWEEP = "ultrascale-playbook"

Key = Callable[[Judged], str]

SIZES = ((3e9, "below 3B"), (10e9, "3B to 10B"), (50e9, "10B to 50B"), (200e9, "50B to 200B"))
GPUS = ((8, "1 to 8"), (64, "9 to 64"), (512, "65 to 512"), (4096, "513 to 4,096"))


def source(one: Judged) -> str:
    """The short name of a row's source."""
    return recipe_of(one.row.source).title


def device(one: Judged) -> str:
    """A row's device and the precision of its products."""
    precision = PRECISIONS[int(one.predicted.layout["precision"])]
    return f"{one.case.machine.device.name}, {precision}"


def gpus(one: Judged) -> str:
    """The range that a row's number of GPUs is in."""
    return next((name for most, name in GPUS if (one.row.n_gpus or 0) <= most), "more than 4,096")


def size(one: Judged) -> str:
    """The range that the parameters of a row's model are in."""
    found = one.case.model.parameters
    return next((name for most, name in SIZES if found < most), "200B and more")


def parallelism(one: Judged) -> str:
    """The axes along which the ranks of a row share its model."""
    layout = one.predicted.layout
    axes = [axis for axis in ("tensor", "pipeline", "context", "expert") if layout[axis] > 1]
    kind = "parameters sharded" if layout["zero"] >= 3 else "data"
    return " × ".join([*axes, kind if not axes or layout["zero"] >= 3 else ""]).rstrip(" ×")


def grouped(found: Iterable[Judged], key: Key) -> dict[str, list[Judged]]:
    """Rows by what ``key`` says of them, the largest group first."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in found:
        groups[key(one)].append(one)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def percent(value: float | None, *, signed: bool = False) -> str:
    """A part as percent, – where there is none."""
    return "–" if value is None else f"{100 * value:{'+' * signed}.1f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A table of Markdown, the first ``left`` columns ranged left."""
    ruler = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ruler, *rows))


def by_source(found: Validation) -> str:
    """Errors, ranks, regret and memory by source."""

    def line(name: str, one: Summary) -> list[str]:
        ranked = "–" if one.spearman is None else f"{one.spearman:.2f}"
        regret = f"{percent(one.regret_mean)} / {percent(one.regret_max)}"
        return [
            name,
            f"{one.rows:,}",
            *map(percent, (one.mape, one.median_ape)),
            percent(one.bias, signed=True),
            percent(one.baseline_mape),
            ranked,
            "–" if one.regret_mean is None else regret,
            percent(one.oom_balanced_accuracy),
            percent(one.memory_mape),
        ]

    heads = (
        *("source", "rows", "MAPE", "median", "bias", "line", "rank", "regret, mean / most"),
        *("OOM", "memory"),
    )
    groups = grouped(found.judged, source).items()
    return table(heads, [line(name, summary_of(members)) for name, members in groups])


def cells(found: Validation) -> str:
    """The cells of the sweep: what is predicted the fastest there, and what was."""
    groups = grouped(
        [one for one in found.judged if one.row.step_s and SWEEP in one.row.source],
        lambda one: f"{one.row.model}, {one.row.n_gpus}",
    )
    rows = []
    for name, members in groups.items():
        predicted = np.array([1 / one.predicted.step_s for one in members])
        measured = np.array([1 / (one.row.step_s or 1.0) for one in members])
        chosen, best = members[predicted.argmax()], members[measured.argmax()]
        order = spearman(predicted, measured)
        rows.append(
            [
                name,
                f"{len(members):,}",
                "–" if order is None else f"{order:.2f}",
                percent(regret(predicted, measured)),
                _axes(chosen),
                _axes(best),
            ]
        )
    heads = ("model, GPUs", "rows", "rank", "regret", "predicted the fastest", "the fastest")
    return table(heads, rows)


def _axes(one: Judged) -> str:
    """The layout of a row in short."""
    layout = one.predicted.layout
    axes = [f"{name[0]}{layout[name]}" for name in ("data", "tensor", "pipeline", "context")]
    sizes = [text for text in axes if text[1:] != "1"]
    return " ".join([*sizes, f"{layout['micro_batches']}×{layout['rows']} z{layout['zero']}"])


def by_kind(found: Validation, key: Key, head: str) -> str:
    """Errors by one of a row's properties."""
    timed = [one for one in found.judged if one.row.step_s]
    rows = []
    for name, members in grouped(timed, key).items():
        one = summary_of(members)
        figures = map(percent, (one.mape, one.median_ape, one.mape_all))
        rows.append([name, f"{one.rows:,}", *figures, percent(one.bias, signed=True)])
    return table((head, "rows", "MAPE", "median", "MAPE of all", "bias"), rows)


def opening(found: Validation) -> str:
    """The page's answer in a sentence."""
    one = summary_of(found.rows)
    timed = [each for each in found.judged if each.row.step_s]
    sources = len({source(each) for each in timed})
    known = [(abs(each.error or 0.0), each.expected) for each in timed]
    told = [off <= expected.most for off, expected in known if expected]
    text = (
        f"**Over {one.judged:,} measured steps of {sources} sources the predicted time is off by "
        f"{percent(one.mape)} % on average, by {percent(one.median_ape)} % on the median; a line "
        f"fitted to each GPU and precision on these very rows is off by "
        f"{percent(one.baseline_mape)} %.** {one.rows - one.judged:,} more steps were printed "
        f"with less than 10 % of the peak and count for ranks alone; {one.unexpressed:,} of "
        f"{len(found.rows):,} rows are not predicted, each with its reason. Of {len(told):,} "
        f"steps {percent(float(np.mean(told)))} % were off by no more than four in five of the "
        f"steps nearest to each, which is the error that is told as expected."
    )
    return fill(text, 100)


def worst(found: Validation) -> str:
    """The twenty rows that count and are off the most, and what their time is mostly made of."""
    counted = [one for one in found.judged if one.counts]
    counted.sort(key=lambda one: -abs(np.log(one.predicted.step_s / (one.row.step_s or 1.0))))
    rows = []
    for one in counted[:WORST]:
        term, seconds = max(one.predicted.terms.items(), key=lambda item: item[1])
        cause = f"{TERMS[term]}, {percent(seconds / one.predicted.step_s)} %"
        if one.case.assumed:
            cause += f"; assumed: {', '.join(one.case.assumed)}"
        rows.append(
            [
                f"{source(one)}: {one.row.model}",
                f"{one.row.n_gpus}: {_axes(one)}",
                format_seconds(one.row.step_s or 0.0),
                format_seconds(one.predicted.step_s),
                percent(one.error, signed=True),
                cause,
            ]
        )
    heads = ("source and model", "GPUs", "measured", "predicted", "error", "most of it")
    return table(heads, rows, left=2)


def unexpressed(found: Validation) -> str:
    """Rows that are not predicted, by source and reason."""
    groups: dict[tuple[str, str], int] = defaultdict(int)
    for one in found.unexpressed:
        groups[recipe_of(one.row.source).title, one.why] += 1
    rows = [[name, f"{count:,}", why] for (name, why), count in sorted(groups.items())]
    return table(("source", "rows", "why"), rows)


def held_out(names: Sequence[str], page: str) -> str:
    """Fits without each model and each source of some frameworks, judged on what they did not see.

    The lines of all others stay as the page has them.
    """
    shown = re.search(r"<!-- held out -->\n(.*?)<!-- end -->", page, re.S)
    kept = [line.strip("| ").split(" | ") for line in shown[1].splitlines()[2:]] if shown else []
    rows = [row for row in kept if row[0] not in names]
    fits.remember_prices()
    for name in names:
        batches = fits.batches_of(fits.cases_of(name))
        fitted = np.abs(fits.errors(software_named(name), batches))
        for what, key in (("model", _model), ("source", _whole_source)):
            off = [np.abs(one) for one in _without(name, fits.FITTED[name], batches, key)]
            if not off:
                continue
            both = np.concatenate(off)
            row = [name, f"each of {len(off)} {what}s", f"{both.size:,}"]
            figures = (fitted.mean(), both.mean(), np.median(both))
            rows.append([*row, *(percent(float(one)) for one in figures)])
    order = list(fits.FITTED)
    rows.sort(key=lambda row: (order.index(row[0]), row[1].endswith("sources")))
    heads = ("framework", "left out in turn", "rows", "MAPE, fitted", "MAPE, left out", "median")
    return table(heads, rows, left=2)


def _without(
    name: str, names: Sequence[str], batches: Sequence[fits.Batch], key: Callable[[fits.Batch], str]
) -> Iterator[NDArray[np.float64]]:
    """The errors on the batches of each key of a fit to all others; none where there is one key."""
    start = fits.unfitted(name)
    keys = dict.fromkeys(map(key, batches))
    for one in keys if len(keys) > 1 else ():
        others = [batch for batch in batches if key(batch) != one]
        unseen = [batch for batch in batches if key(batch) == one]
        print(f"{name} without {one}", file=sys.stderr)
        yield fits.errors(fits.fit(start, names, others), unseen)


def _model(batch: fits.Batch) -> str:
    """Its model's shape: rows of one shape are left out together, whatever they call it."""
    model = batch.model
    return f"{model.layers} × {model.hidden}"


def _whole_source(batch: fits.Batch) -> str:
    """Its source without the version: another may print the same figures."""
    return re.sub(r"@\w+|v\d[\d.]*", "", batch.cases[0].row.source)


def kept_errors(found: Validation) -> str:
    """The text of predict/errors.csv."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(step_with_error(one) for one in found.judged if one.row.step_s)
    return text.getvalue()


def renewed(page: str, blocks: dict[str, str]) -> str:
    """The page with what stands between the marks of each block made anew."""
    for name, text in blocks.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not mark.search(page):
            sys.exit(f"{PAGE} has no <!-- {name} --> … <!-- end -->")
        page = mark.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)
    return page


def blocks_of(found: Validation) -> dict[str, str]:
    """The parts of the page that are made anew every time, by their marks."""
    return {
        "opening": opening(found),
        "by source": by_source(found),
        "cells": cells(found),
        "by device": by_kind(found, device, "device"),
        "by GPUs": by_kind(found, gpus, "GPUs"),
        "by size": by_kind(found, size, "parameters"),
        "by parallelism": by_kind(found, parallelism, "ranks share"),
        "worst": worst(found),
        "not predicted": unexpressed(found),
    }


def draw(found: Validation, path: Path) -> None:
    """Predicted against measured parts of the peak, every row a point."""
    mpl.rcParams["svg.hashsalt"] = "steptime"
    figure, axes = plt.subplots(figsize=(7, 6), layout="constrained")
    timed = [one for one in found.judged if one.row.step_s]
    several = grouped(timed, source)
    colours = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
    for number, (name, members) in enumerate(several.items()):
        measured = [
            100 * one.predicted.mfu * one.predicted.step_s / (one.row.step_s or 1.0)
            for one in members
        ]
        axes.scatter(
            measured,
            [100 * one.predicted.mfu for one in members],
            s=9,
            color=colours[number % len(colours)],
            marker="os^Dv"[number // len(colours) % 5],
            alpha=0.6,
            linewidths=0,
            rasterized=True,
            label=f"{name}, {len(members):,}",
        )
    ends = np.array([0.3, 90.0])
    axes.plot(ends, ends, color="#444444", linewidth=0.8)
    axes.fill_between(ends, ends / 1.15, ends * 1.15, color="#444444", alpha=0.12, linewidth=0)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set_xlabel("measured: model FLOP/s, % of the peak (band: 15 % either way)")
    axes.set_ylabel("predicted: model FLOP/s, % of the peak")
    ticks = (0.5, 1, 2, 5, 10, 20, 50)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{one:g}" for one in ticks])
        axis.set_ticks([], minor=True)
    axes.legend(fontsize=7, frameon=False, markerscale=1.6)
    figure.savefig(path, metadata={"Date": None}, dpi=160)


def main() -> int:
    """Make the page anew, or say whether that would change it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--held-out", nargs="+", metavar="SOFTWARE", choices=tuple(fits.FITTED), default=()
    )
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if it would")
    asked = parser.parse_args()
    found = validate()
    kept = kept_errors(found)
    if not asked.check:
        ERRORS.write_text(kept)
        shipped_errors.cache_clear()
        found = validate()  # what is expected is of the errors just written
    blocks = blocks_of(found)
    if asked.held_out:
        blocks["held out"] = held_out(asked.held_out, PAGE.read_text())
    page = renewed(PAGE.read_text(), blocks)
    if asked.check:
        same = page == PAGE.read_text() and kept == ERRORS.read_text()
        print("as shipped" if same else "run benchmarks/accuracy.py: predictions have changed")
        return not same
    PAGE.write_text(page)
    draw(found, PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
