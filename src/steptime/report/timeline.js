"use strict";

/* The figure of one step: choosing, zooming, searching, pointing. */

const stepFigure = document.getElementById("step-figure");
const tip = document.getElementById("tip");
const choice = document.getElementById("step-choice");
const search = document.getElementById("search");
const view = { trace: null, step: 0, range: null, unfolded: new Set([0]), matches: null, at: -1 };
let drawing = 0;
let paperWidth;

const milliseconds = (ticks) => ticks * view.trace.tick * 1e3;
const ticksOf = (ms) => ms / 1e3 / view.trace.tick;

const currentStep = () => view.trace.steps[view.step];

function wholeRange() {
  const length = milliseconds(currentStep().length);
  return [-0.04 * length, 1.04 * length];
}

async function showStrategy(number) {
  const text = packed.get(number);
  document.getElementById("step-tools").hidden = !text;
  document.getElementById("step-missing").hidden = Boolean(text);
  document.getElementById("step-note").textContent = text?.dataset.note ?? "";
  if (!text) document.getElementById("path-note").textContent = "";
  view.trace = await traceOf(number);
  if (!view.trace) return;
  view.unfolded = new Set([0]);
  choice.replaceChildren(
    ...view.trace.steps.map((step, at) => new Option(`${step.number} · ${step.label}`, at)),
  );
  if (search.value) markMatches(search.value);
  fillGroups();
  showStep(view.trace.first);
}

function showStep(number) {
  view.step = Math.min(view.trace.steps.length - 1, Math.max(0, number));
  view.range = wholeRange();
  view.at = -1;
  choice.value = view.step;
  const { messages, path } = currentStep();
  document.getElementById("messages-choice").hidden = !messages.length;
  document.getElementById("path-note").textContent = pathNote(view.trace, path);
  drawStep();
}

function fillGroups() {
  const box = document.getElementById("groups");
  box.hidden = !view.trace.folds;
  const buttons = [];
  for (let group = 0; group < view.trace.groups && view.trace.folds; group++) {
    const last = Math.min(view.trace.ranks.length, (group + 1) * GROUP);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = view.trace.span(group * GROUP, last);
    button.setAttribute("aria-pressed", view.unfolded.has(group));
    button.addEventListener("click", () => {
      if (!view.unfolded.delete(group)) view.unfolded.add(group);
      button.setAttribute("aria-pressed", view.unfolded.has(group));
      drawStep();
    });
    buttons.push(button);
  }
  box.querySelector("div").replaceChildren(...buttons);
}

/** The width of the plot in pixels, as far as it is known. */
function plotWidth() {
  const area = stepFigure.querySelector(".nsewdrag");
  const width = area ? area.getBoundingClientRect().width : 0;
  return width || Math.max(200, (paperWidth ?? stepFigure.clientWidth) - 110);
}

const FILL = { p: 0.35, d: 0.16 };

function barTraces({ looks }, edge) {
  const colors = figures.phases;
  return [...looks].map(([look, { x, y }]) => ({
    type: "scatter",
    mode: "lines",
    fill: "toself",
    x: x.map((t) => t && milliseconds(t)),
    y,
    fillcolor: colors[look[0]].color,
    opacity: FILL[look[1]] ?? 1,
    line: { width: edge, color: "--paper", simplify: false },
    hoverinfo: "skip",
  }));
}

function labelTrace(labels, [from, to], pixels, pitch) {
  const perPixel = (to - from) / pixels;
  const fits = [];
  for (const label of labels) {
    const wide = (label.end - label.start) / perPixel;
    const text = view.trace.name(label.i);
    if (label.height * pitch >= 11 && wide >= 6.1 * text.length + 6) fits.push({ ...label, text });
  }
  fits.sort((a, b) => b.end - b.start - (a.end - a.start)).splice(300);
  return {
    type: "scatter",
    mode: "text",
    x: fits.map(({ start, end }) => milliseconds((start + end) / 2)),
    y: fits.map(({ y }) => y),
    text: fits.map(({ text }) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;")),
    textfont: {
      size: 11,
      color: fits.map(({ i }) => figures.phases[view.trace.phase(i)].text),
    },
    hoverinfo: "skip",
  };
}

function lineTrace({ x, y }, color, width, opacity) {
  return {
    type: "scatter",
    mode: "lines",
    x: x.map((t) => (t === null ? null : milliseconds(t))),
    y,
    line: { color, width, simplify: false },
    opacity,
    hoverinfo: "skip",
  };
}

function messageTraces(place, window) {
  const note = document.getElementById("messages-note");
  note.textContent = "";
  if (!currentStep().messages.length || !document.getElementById("messages").checked) return [];
  const found = messageLines(view.trace, currentStep(), place, window);
  if (found.drawn < found.all) {
    note.textContent = `${found.drawn} of ${found.all} messages in view are drawn: zoom in.`;
  }
  return [
    lineTrace(found, "--ink", 1, found.drawn > 200 ? 0.35 : 0.7),
    {
      type: "scatter",
      mode: "markers",
      x: found.ends.x.map(milliseconds),
      y: found.ends.y,
      marker: { color: "--ink", size: 4 },
      hoverinfo: "skip",
    },
  ];
}

function drawStep() {
  cancelAnimationFrame(drawing);
  drawing = 0;
  tip.hidden = true;
  const { trace, range } = view;
  const step = currentStep();
  const place = (view.place = placed(trace, view.unfolded));
  // A quarter more on either side, so that moving the figure shows no edge before it is redrawn.
  const beside = 0.25 * (range[1] - range[0]);
  const window = [range[0] - beside, range[1] + beside].map(ticksOf);
  const pixels = 1.5 * plotWidth();
  const pitch = Math.min(26, Math.max(8, 660 / place.height));
  const { shapes, labels } = bars(trace, step, place, window, pixels, view.matches);
  const edge = shapes.count <= 1.5 * pixels ? 0.6 : 0;
  areas(trace, step, place, window, pixels, shapes);
  const data = [...barTraces(shapes, edge), labelTrace(labels, window, pixels, pitch)];
  data.push(...messageTraces(place, window));
  if (document.getElementById("path").checked) {
    const lines = pathLines(trace, step, place, window, (window[1] - window[0]) / pixels);
    data.push(lineTrace(lines, "--path", 2.5, 1));
  }
  const layout = {
    ...figures.step,
    height: Math.round(64 + pitch * place.height),
    xaxis: { ...figures.step.xaxis, range: [...range] },
    yaxis: { ...figures.step.yaxis, ...rowLabels(place, pitch) },
    shapes: place.bands.flatMap((band) => ground(step, band)),
  };
  draw(stepFigure, { data, layout }, paperWidth);
  showRange();
  tellStreams(pitch);
  performance.mark("timeline-drawn");
}

/** The name of a rank's rows; on a narrow page without its stage, which `told` says. */
function rowLabel(rank) {
  const text = view.trace.labels[rank];
  return innerWidth > 560 ? text : text.replace(/ of stage .*/, "");
}

function rowLabels(place, pitch) {
  const [tickvals, ticktext] = [[], []];
  for (const { rank, first, last, top, height } of place.bands) {
    if (rank === undefined) {
      tickvals.push(top + height / 2);
      ticktext.push(view.trace.span(first, last));
    } else if (pitch < 12 || height === 1) {
      tickvals.push(top + height / 2);
      ticktext.push(rowLabel(rank));
    } else {
      for (let at = 0; at < height; at++) {
        const stream = view.trace.rows[rank * view.trace.each + at][1];
        tickvals.push(top + at + 0.5);
        ticktext.push(`${at ? "" : `<b>${rowLabel(rank)}</b>  `}${stream}`);
      }
    }
  }
  const small = { size: pitch >= 15 && innerWidth > 560 ? 12 : 10, color: "--ink" };
  return { tickvals, ticktext, tickfont: small, range: [place.height + 0.1, -0.1] };
}

/** Where rows are too thin for the names of their streams, these are told once. */
function tellStreams(pitch) {
  const { each, rows } = view.trace;
  const unfolded = view.place.bands.some(({ rank }) => rank !== undefined);
  const names = rows.slice(0, each).map(([, stream]) => stream);
  document.getElementById("streams-note").textContent =
    pitch < 12 && each > 1 && unfolded ? `rows of a rank, from above: ${names.join(", ")}` : "";
}

/** The ground of a rank's rows is its own step. */
function ground(step, { rank, top, height }) {
  if (rank === undefined) return [];
  const [x0, x1] = step.bounds.map((of) => milliseconds(of[rank]));
  const look = { type: "rect", layer: "below", fillcolor: "--band", line: { width: 0 } };
  return [{ ...look, x0, x1, y0: top, y1: top + height }];
}

function showRange() {
  const [low, high] = view.range.map((ms) => ms / 1e3);
  const whole = high - low >= currentStep().length * view.trace.tick;
  const text = whole ? "the whole step is in view" : `${seconds(high - low)} are in view`;
  document.getElementById("range-note").textContent = text;
}

function zoomTo(low, high) {
  const [begin, end] = wholeRange();
  const least = Math.max(milliseconds(4), 1e-9 * (end - begin));
  const half = Math.max(least, Math.min(high - low, 3 * (end - begin))) / 2;
  const middle = Math.min(end, Math.max(begin, (low + high) / 2));
  view.range = [middle - half, middle + half];
  drawing ||= requestAnimationFrame(drawStep);
}

function zoom({ zoom: by, move }, about = 0.5) {
  if (by === "whole") {
    view.range = wholeRange();
    drawStep();
    return;
  }
  const [low, high] = view.range;
  const length = high - low;
  const left = low + about * length * (1 - Number(by)) + Number(move) * length;
  zoomTo(left, left + Number(by) * length);
}

/** Notes which kinds of intervals have names that hold a text. */
function markMatches(text) {
  const wanted = text.trim().toLowerCase();
  const { kinds, names } = view.trace;
  view.at = -1;
  view.matches = wanted
    ? kinds.map(([name]) => names[name].toLowerCase().includes(wanted))
    : null;
}

/** Shows them, and says how many there are. */
function find(text) {
  markMatches(text);
  const note = document.getElementById("search-note");
  note.textContent = "";
  if (view.matches) {
    const found = matching();
    const total = found.reduce((sum, { i }) => sum + view.trace.end[i] - view.trace.start[i], 0);
    note.textContent = found.length
      ? `${found.length.toLocaleString("en")} match, ${seconds(total * view.trace.tick)} in all; ` +
        "Enter goes to the next"
      : "nothing of this name in this step";
  }
  drawStep();
}

function matching() {
  const found = [];
  for (const { row, first, last } of currentStep().tracks) {
    for (let i = first; i < last; i++) {
      if (view.matches[view.trace.kind[i]] && view.trace.own(currentStep(), row, i)) {
        found.push({ i, row });
      }
    }
  }
  return found.sort((a, b) => view.trace.start[a.i] - view.trace.start[b.i] || a.row - b.row);
}

function goToNext() {
  const found = view.matches ? matching() : [];
  if (!found.length) return;
  view.at = (view.at + 1) % found.length;
  const { i, row } = found[view.at];
  if (view.trace.folds) view.unfolded.add(Math.floor(view.trace.rankOf(row) / GROUP));
  fillGroups();
  const [start, end] = [view.trace.start[i], view.trace.end[i]].map(milliseconds);
  const wide = Math.min(view.range[1] - view.range[0], Math.max(4 * (end - start), milliseconds(8)));
  zoomTo((start + end - wide) / 2, (start + end + wide) / 2);
  document.getElementById("search-note").textContent =
    `${view.at + 1} of ${found.length.toLocaleString("en")}: ${told(i, row).join(", ")}`;
}

/** What is said of an interval: name, where, how long, what. */
function told(i, row) {
  const { trace } = view;
  const [, phase, stream, bytes] = trace.kinds[trace.kind[i]];
  const rank = trace.rankOf(row);
  const { to, from } = peers(trace, currentStep(), { i, rank });
  const named = (map) => [...map.keys()].slice(0, 4).map((at) => trace.labels[at]).join(", ");
  return [
    trace.name(i),
    PHASES[phase],
    trace.labels[rank],
    seconds((trace.end[i] - trace.start[i]) * trace.tick),
    bytes ? size(bytes) : "",
    to.size ? `to ${named(to)}${to.size > 4 ? " …" : ""}` : "",
    from.size ? `from ${named(from)}${from.size > 4 ? " …" : ""}` : "",
    `begins at ${seconds(Math.max(0, trace.start[i] * trace.tick))}`,
    trace.own(currentStep(), row, i) ? "" : "of the step beside",
    onPath(i, row) ? "on the critical path" : "",
  ].filter(Boolean);
}

function onPath(i, row) {
  const { start, end } = view.trace;
  return currentStep().path.some(([of, a, b]) => of === row && a < end[i] && b > start[i]);
}

function point(event) {
  const area = stepFigure.querySelector(".nsewdrag")?.getBoundingClientRect();
  tip.hidden = true;
  if (!area || !view.place) return;
  const [across, down] = [event.clientX - area.left, event.clientY - area.top];
  if (across < 0 || down < 0 || across > area.width || down > area.height) return;
  const [low, high] = view.range;
  const time = ticksOf(low + (across / area.width) * (high - low));
  const y = -0.1 + (down / area.height) * (view.place.height + 0.2);
  const reach = (3 * ticksOf(high - low)) / area.width;
  const found = under(view.trace, currentStep(), view.place, time, y, reach);
  if (!found) return;
  const lines = found.band ? foldedAt(found.band, time) : told(found.i, found.row);
  tip.replaceChildren(...lines.map((text, at) => {
    const line = document.createElement(at ? "span" : "b");
    line.textContent = text;
    return line;
  }));
  tip.hidden = false;
  const frame = stepFigure.parentElement.getBoundingClientRect();
  const left = event.clientX - frame.left + 14;
  tip.style.left = `${Math.max(0, Math.min(left, frame.width - tip.offsetWidth - 2))}px`;
  tip.style.top = `${event.clientY - frame.top + 18}px`;
}

function foldedAt(band, time) {
  const { from, width, stack } = band.bins;
  const bin = Math.min(band.time[0].length - 1, Math.max(0, Math.floor((time - from) / width)));
  const whole = (band.last - band.first) * width;
  const shares = stack.map((phase, at) => [PHASES[phase], band.time[at][bin] / whole]);
  return [
    view.trace.span(band.first, band.last),
    ...shares.filter(([, part]) => part >= 0.005).map(([what, part]) =>
      `${what} on ${Math.round(100 * part)} % of ranks`),
    "folded: the buttons above unfold them",
  ];
}

function listen() {
  document.getElementById("timeline").addEventListener("click", ({ target }) => {
    const button = target.closest("[data-zoom]");
    if (button) zoom(button.dataset);
    if (target.dataset.step) showStep(view.step + Number(target.dataset.step));
  });
  choice.addEventListener("change", () => showStep(Number(choice.value)));
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => find(search.value), 120);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToNext();
  });
  for (const id of ["path", "messages"]) {
    document.getElementById(id).addEventListener("change", () => drawStep());
  }
  stepFigure.addEventListener("pointermove", point);
  stepFigure.addEventListener("pointerleave", () => (tip.hidden = true));
  stepFigure.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const area = stepFigure.querySelector(".nsewdrag").getBoundingClientRect();
    const about = Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
    zoom({ zoom: event.deltaY > 0 ? 1.25 : 0.8, move: 0 }, about);
  }, { passive: false });
  stepFigure.addEventListener("keydown", (event) => {
    const keys = {
      ArrowLeft: { zoom: 1, move: -0.25 },
      ArrowRight: { zoom: 1, move: 0.25 },
      "+": { zoom: 0.5, move: 0 },
      "-": { zoom: 2, move: 0 },
      0: { zoom: "whole" },
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    zoom(keys[event.key]);
  });
  stepFigure.on("plotly_relayout", (change) => {
    const low = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
    const high = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (low !== undefined) zoomTo(low, high);
  });
  stepFigure.on("plotly_doubleclick", () => zoom({ zoom: "whole" }));
}
