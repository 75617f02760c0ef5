"use strict";

/** The page's own colours in place of CSS variables. */
function themed(figure) {
  const style = getComputedStyle(document.documentElement);
  const resolve = (key, value) =>
    typeof value === "string" && value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
  return JSON.parse(JSON.stringify(figure), resolve);
}

function draw(width) {
  for (const element of document.querySelectorAll("[data-figure]")) {
    const { data, layout } = themed(figures[element.dataset.figure]);
    if (width) Object.assign(layout, { width, autosize: false });
    element.style.minHeight = `${layout.height}px`;
    Plotly.react(element, data, layout, { displayModeBar: false, responsive: true, doubleClick: false });
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plotlyLoaded.then(() => draw()));
const paper = 660; // pixels that fit between the margins of A4 and of Letter
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  draw(paper);
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  draw();
});
plotlyLoaded.then(() => {
  draw();
  performance.mark("all-drawn");
});
