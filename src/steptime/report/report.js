"use strict";

/* The page: its figures in the colours of light, dark and paper, and the strategy that is chosen. */

const config = { displayModeBar: false, responsive: true, doubleClick: false };
const linksFigure = document.getElementById("links-figure");
const matrixFigures = document.getElementById("matrix-figures");
// On a touch screen a finger on the figure scrolls the page; the buttons zoom.
const touch = matchMedia("(pointer: coarse)");
let strategy = Number(stepFigure?.dataset.first ?? 0);

/** The figure with the page's own colours in place of CSS variables. */
function themed(value, style) {
  if (typeof value === "string") {
    return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
  }
  if (Array.isArray(value)) {
    const numbers = value.length > 64 && typeof value[0] !== "string" && !value[0]?.length;
    return numbers ? value : value.map((item) => themed(item, style));
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, style)]));
  }
  return value;
}

function draw(element, figure, width) {
  const style = getComputedStyle(document.documentElement);
  const { data, layout } = themed({ data: figure.data, layout: figure.layout }, style);
  if (touch.matches) layout.dragmode = false;
  if (width) Object.assign(layout, { width, autosize: false });
  element.style.minHeight = `${layout.height}px`;
  Plotly.react(element, data, layout, config);
}

function drawAll() {
  for (const element of document.querySelectorAll("[data-figure]")) {
    draw(element, figures[element.dataset.figure], paperWidth);
  }
  if (view.trace) drawStep();
  drawOfStrategy();
}

/** What belongs to the strategy that is chosen, beside its step. */
function drawOfStrategy() {
  if (linksFigure) {
    const figure = figures.links[strategy];
    linksFigure.hidden = !figure?.data;
    document.getElementById("links-note").textContent =
      figure?.note ?? "Nothing is known of the links under this strategy.";
    if (figure?.data) draw(linksFigure, figure, paperWidth);
  }
  if (matrixFigures) drawMatrix(figures.matrix[strategy]);
  for (const table of document.querySelectorAll("[data-of]")) {
    table.hidden = Number(table.dataset.of) !== strategy;
  }
}

function drawMatrix(matrix) {
  const [ofRanks, ofHosts] = matrixFigures.children;
  document.getElementById("matrix-note").textContent =
    matrix?.note ?? "Nobody knows who sends to whom under this strategy.";
  document.getElementById("matrix-source").textContent = matrix?.source ?? "unknown";
  [ofRanks, ofHosts].forEach((element, at) => {
    const figure = matrix?.figures[at];
    element.hidden = !figure;
    if (figure) draw(element, figure, paperWidth && paperWidth / 2);
  });
}

async function choose(number) {
  strategy = number;
  drawOfStrategy();
  await showStrategy(number);
}

for (const input of document.querySelectorAll("input[name=strategy]")) {
  input.addEventListener("change", () => choose(Number(input.value)));
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(button));
}

/** Copies a command; a page from disk may not use the clipboard, and a selection always can. */
async function copy(button) {
  const code = button.parentElement.querySelector("code");
  getSelection().selectAllChildren(code);
  let done = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    done = true;
  } catch {
    done = document.execCommand("copy");
  }
  button.textContent = done ? "copied" : "selected";
  setTimeout(() => (button.textContent = "copy"), 1500);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
touch.addEventListener("change", () => drawAll());

const PAPER = 660; // pixels that fit between the margins of A4 and of Letter
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  paperWidth = PAPER;
  drawAll();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  paperWidth = undefined;
  drawAll();
});

async function start() {
  await plotlyLoaded;
  if (stepFigure) {
    await showStrategy(strategy);
    listen();
  }
  // The timeline first: the figures below it can wait until it is there.
  requestAnimationFrame(() => {
    for (const element of document.querySelectorAll("[data-figure]")) {
      draw(element, figures[element.dataset.figure]);
    }
    drawOfStrategy();
    performance.mark("all-drawn");
  });
}

start();
