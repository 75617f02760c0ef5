"use strict";

const figures = JSON.parse(document.getElementById("figures").textContent);
const config = { displayModeBar: false, responsive: true, doubleClick: false };
const stepFigure = document.getElementById("step-figure");
const linksFigure = document.getElementById("links-figure");
// On a touch screen a finger on the figure scrolls the page; the buttons zoom.
const touch = matchMedia("(pointer: coarse)");
let strategy = stepFigure ? Number(stepFigure.dataset.first) : 0;

/** The figure with the page's own colours in place of CSS variables. */
function themed(figure) {
  const style = getComputedStyle(document.documentElement);
  const resolve = (key, value) =>
    /color$/.test(key) && typeof value === "string" && value.startsWith("--")
      ? style.getPropertyValue(value).trim()
      : value;
  return JSON.parse(JSON.stringify(figure), resolve);
}

function draw(element, figure, width) {
  const { data, layout } = themed(figure);
  if (touch.matches) layout.dragmode = false;
  if (width) Object.assign(layout, { width, autosize: false });
  element.style.minHeight = `${layout.height}px`;
  Plotly.react(element, data, layout, config);
}

function drawAll(width) {
  for (const element of document.querySelectorAll("[data-figure]")) {
    draw(element, figures[element.dataset.figure], width);
  }
  if (stepFigure) drawStep(stepFigure.layout?.xaxis.range, width);
  if (linksFigure) drawLinks(width);
}

function drawLinks(width) {
  const figure = figures.links[strategy];
  linksFigure.hidden = !figure;
  document.getElementById("links-note").textContent = figure?.note ?? "";
  if (figure) draw(linksFigure, figure, width);
}

function drawStep(range, width) {
  const { data, layout, note } = figures.steps[strategy];
  const xaxis = { ...layout.xaxis, range: [...(range ?? layout.xaxis.range)] };
  document.getElementById("step-note").textContent = note;
  draw(stepFigure, { data, layout: { ...layout, xaxis } }, width);
}

function zoom({ zoom, move }) {
  const whole = figures.steps[strategy].layout.xaxis.range;
  const [begin, end] = stepFigure.layout.xaxis.range;
  const middle = (begin + end) / 2 + Number(move) * (end - begin);
  const half = (Number(zoom) * (end - begin)) / 2;
  const range = zoom === "whole" ? whole : [middle - half, middle + half];
  Plotly.relayout(stepFigure, { "xaxis.range": [...range] });
}

for (const input of document.querySelectorAll("input[name=strategy]")) {
  input.addEventListener("change", () => {
    strategy = Number(input.value);
    drawStep();
    if (linksFigure) drawLinks();
  });
}
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => zoom(button.dataset));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
touch.addEventListener("change", () => drawAll());

const paper = 660; // pixels that fit between the margins of A4 and of Letter
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  drawAll(paper);
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  drawAll();
});

drawAll();
stepFigure?.on("plotly_doubleclick", () => zoom({ zoom: "whole" }));
