"use strict";

/* The stage: the ranks of a panel, what they hold, and what is on its way between them. */

const LARGEST = 104; // pixels of a box
const LOWEST = 220; // of a stage in a window that is too low for it
const WORDS = 112; // of what is told below a stage
const colors = new Map();
let ink = {};

/** The colour of one of so many ranks, as red, green and blue, on a wheel of even lightness. */
function wheel(index, count) {
  const key = `${index}/${count}/${dark.matches}`;
  if (!colors.has(key)) {
    const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    pixel.fillStyle = `oklch(${dark.matches ? 0.76 : 0.7} 0.15 ${(25 + (360 * index) / count) % 360})`;
    pixel.fillRect(0, 0, 1, 1);
    colors.set(key, [...pixel.getImageData(0, 0, 1, 1).data]);
  }
  return colors.get(key);
}

/** What a rank holds in a state, a pixel a slot and contribution. */
function image(panel, state, rank) {
  const key = `${state}/${rank}/${dark.matches}`;
  if (panel.images.has(key)) return panel.images.get(key);
  const rows = panel.reduces ? panel.ranks : 1;
  const canvas = Object.assign(document.createElement("canvas"), { width: panel.slots, height: rows });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(panel.slots, rows);
  const holds = panel.states[state];
  for (let slot = 0; slot < panel.slots; slot++) {
    const at = rank * panel.slots + slot;
    for (let origin = 0; origin < panel.ranks; origin++) {
      if (!has(holds, at, origin)) continue;
      const color = panel.root >= 0 && !panel.reduces && panel.collective !== "gather"
        ? wheel(holds.chunk[at], panel.chunks)
        : wheel(origin, panel.ranks);
      pixels.data.set(color, 4 * ((panel.reduces ? origin : 0) * panel.slots + slot));
    }
  }
  context.putImageData(pixels, 0, 0);
  if (panel.images.size > 4 * panel.ranks) panel.images.clear();
  panel.images.set(key, canvas);
  return canvas;
}

/** A box is square where each row is a contribution, else half as high as wide. */
const boxHeight = (panel, side) => (panel.reduces ? side : Math.max(side * 0.5, 8));

/** How high a stage may be: it and the words below it stand above the controls, where they can. */
function room(panel) {
  const { element, canvas, told } = panel;
  const top = element.getBoundingClientRect().top + byId("page").scrollTop;
  const beside = told.getBoundingClientRect().left >= canvas.getBoundingClientRect().right;
  const others = (element.querySelector("h2")?.offsetHeight ?? 0) + (beside ? 0 : WORDS) + 16;
  const above = top < innerHeight / 2 ? top : 0; // further down the reader scrolls to it
  return Math.max(LOWEST, innerHeight - byId("controls").offsetHeight - above - others);
}

/** Where the ranks stand on a stage so wide and so high at most, and how large their boxes are. */
function arrange(panel, width, highest) {
  const key = `${width} ${highest}`;
  if (panel.place?.key !== key) {
    const place = panel.layout === "circle" ? onCircle(panel, width, highest) : inRows(panel, width, highest);
    panel.place = { key, ...place };
  }
  return panel.place;
}

/** The largest boxes that leave each other room on an ellipse that fills the stage. */
function onCircle(panel, width, highest) {
  const crowded = panel.ranks > 16;
  const label = panel.ranks > 32 ? 12 : 18;
  const height = Math.min(highest, width, 620);
  const gap = crowded ? 2 : 10;
  for (let box = Math.min(LARGEST, 0.22 * width); ; box *= 0.96) {
    const tall = boxHeight(panel, box);
    const [across, down] = crowded ? [box / 2 + 0.75 * label + 10, tall / 2 + 1.3 * label] : [box / 2 + 6, tall / 2 + label / 2 + 8];
    const centre = [width / 2, height / 2 + (crowded ? 0 : label / 2 - 4)];
    const points = panel.places.map(([x, y]) => [centre[0] + (width / 2 - across) * x, centre[1] + (height / 2 - down) * y]);
    const apart = ([x, y], [u, v]) => Math.abs(x - u) >= 1.14 * box + gap || Math.abs(y - v) >= tall + (crowded ? 0 : label) + gap;
    if (box < 10 || points.every((one, i) => points.slice(i + 1).every((other) => apart(one, other)))) {
      return { box, label, height, points };
    }
  }
}

/** A tree's levels or the hosts as rows, as far apart as the height allows. */
function inRows(panel, width, highest) {
  const xs = panel.places.map(([x]) => x);
  const ys = panel.places.map(([, y]) => y);
  const label = panel.ranks > 32 ? 12 : 18;
  const rows = Math.max(...ys) + 1;
  const columns = Math.max(...xs) + 1;
  const across = width / columns;
  const most = Math.max(label + 24, (highest - 12) / rows); // of a row
  const head = panel.layout === "hosts" ? label + 12 : label;
  const fits = 0.66 * (most - head);
  const box = Math.max(8, Math.min(LARGEST, across * 0.74, panel.reduces ? fits : 2 * fits));
  const tall = boxHeight(panel, box);
  const down = Math.min(most, tall + head + Math.max(30, Math.min(90, box * 0.8)));
  const indent = (row) => (panel.layout === "hosts" ? (columns - xs.filter((_, i) => ys[i] === row).length) * across / 2 : 0);
  const points = panel.places.map(([x, y]) => [(x + 0.5) * across + indent(y), y * down + head + tall / 2 + 6]);
  return { box, label, height: rows * down + 12, down, points };
}

function sized(canvas, height) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** The bend of the way from one point to another, to its left, so that both ways are apart. */
function bend([x, y], [u, v], strength) {
  return [(x + u) / 2 + (v - y) * strength, (y + v) / 2 - (u - x) * strength];
}

function along(from, control, to, t) {
  const s = 1 - t;
  return [0, 1].map((i) => s * s * from[i] + 2 * s * t * control[i] + t * t * to[i]);
}

function box(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}

function paint(context, picture, first, count, x, y, width, height) {
  context.imageSmoothingEnabled = width < count * 1.5 || height < picture.height;
  context.drawImage(picture, first, 0, count, picture.height, x, y, width, height);
}

/** Lines between the columns of a box, a wider one where the result or the scratch begins. */
function rule(context, panel, x, y, side, height) {
  const column = side / panel.slots;
  context.strokeStyle = ink.paper;
  for (let slot = 1; slot < panel.slots; slot++) {
    const border = slot === panel.result || slot === panel.result + panel.chunks;
    if (column < 4 && !border) continue;
    context.lineWidth = border && panel.slots > panel.chunks ? 3 : 1;
    context.beginPath();
    context.moveTo(x + slot * column, y);
    context.lineTo(x + slot * column, y + height);
    context.stroke();
  }
}

function draw(panel) {
  const { rounds, moving } = moment(panel);
  const place = arrange(panel, panel.canvas.clientWidth, room(panel));
  const context = sized(panel.canvas, place.height);
  const tall = boxHeight(panel, place.box);
  const strength = panel.layout === "circle" ? 0.1 : 0.16;
  drawWires(context, panel, place, strength);
  drawActive(context, panel, place, moving, strength);
  const active = new Set(moving.flatMap(({ src, dst }) => [src, dst]));
  const idle = (rank) => moving.length > 0 && !active.has(rank);
  for (let rank = 0; rank < panel.ranks; rank++) {
    drawRank(context, panel, place, rank, rounds[rank], tall, idle(rank));
  }
  const under = moving.filter(({ part }) => part > 0);
  if (!still.matches) drawPackets(context, panel, place, under, tall, strength);
  for (let rank = 0; rank < panel.ranks; rank++) {
    drawName(context, panel, place, rank, tall, idle(rank));
  }
  if (panel.layout === "hosts") drawHosts(context, panel, place);
}

function drawWires(context, panel, place, strength) {
  context.lineWidth = panel.wires.length > 200 ? 0.5 : 1.25;
  for (const [src, dst, tree] of panel.wires) {
    context.strokeStyle = tree < 0 ? ink.wire : ink[`tree${tree}`];
    context.globalAlpha = tree < 0 ? 1 : 0.35;
    const [a, b] = [place.points[src], place.points[dst]];
    context.beginPath();
    context.moveTo(...a);
    context.quadraticCurveTo(...bend(a, b, strength), ...b);
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** The messages of the moment as arrows: in the colour of their tree where there are two. */
function drawActive(context, panel, place, transfers, strength) {
  const thin = panel.ranks > 24;
  for (const transfer of transfers) {
    const { src, dst, reduce } = transfer;
    if (src === dst) continue;
    const [a, b] = [place.points[src], place.points[dst]];
    const control = bend(a, b, strength);
    const tree = treeOf(panel, transfer);
    const wrong = findingsOf(panel, transfer).length > 0;
    const color = tree < 0 ? (reduce ? ink.reduce : ink.copy) : ink[`tree${tree}`];
    context.strokeStyle = context.fillStyle = wrong ? ink.wrong : color;
    context.lineWidth = (thin ? 1 : 2.25) * (wrong ? 1.8 : 1);
    context.beginPath();
    context.moveTo(...a);
    context.quadraticCurveTo(...control, ...b);
    context.stroke();
    const head = thin ? 5 : 9;
    const [x, y] = along(a, control, b, 0.56);
    const [u, v] = along(a, control, b, 0.5);
    const angle = Math.atan2(y - v, x - u);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - head * Math.cos(angle - 0.45), y - head * Math.sin(angle - 0.45));
    context.lineTo(x - head * Math.cos(angle + 0.45), y - head * Math.sin(angle + 0.45));
    context.fill();
    if (wrong) cross(context, ...along(a, control, b, 0.38));
  }
}

/** The mark of what is wrong. */
function cross(context, x, y) {
  context.font = "700 20px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineWidth = 5;
  context.strokeStyle = ink.paper;
  context.fillStyle = ink.wrong;
  context.strokeText("✗", x, y);
  context.fillText("✗", x, y);
}

function drawRank(context, panel, place, rank, round, tall, idle) {
  const [x, y] = place.points[rank];
  const side = place.box;
  const [left, top] = [x - side / 2, y - tall / 2];
  context.fillStyle = ink.paper;
  box(context, left - 4, top - 4, side + 8, tall + 8, 7);
  context.fill();
  context.globalAlpha = idle ? 0.38 : 1;
  context.fillStyle = ink.empty;
  context.fillRect(left, top, side, tall);
  paint(context, image(panel, round, rank), 0, panel.slots, left, top, side, tall);
  rule(context, panel, left, top, side, tall);
  context.strokeStyle = ink.wrong;
  context.lineWidth = 3;
  for (const finding of panel.findings) {
    const [, its, chunk] = finding;
    if (its !== rank || chunk < 0 || chunk >= panel.slots || round < since(panel, finding)) continue;
    const column = side / panel.slots;
    context.strokeRect(left + chunk * column - 1, top - 3, Math.max(4, column + 2), tall + 6);
  }
  context.strokeStyle = rank === panel.root ? ink.mark : ink.soft;
  context.lineWidth = rank === panel.root ? 2.5 : 1;
  box(context, left - 1.5, top - 1.5, side + 3, tall + 3, 4);
  context.stroke();
  const whole = Math.max(...panel.sent.at(-1), 1e-9);
  context.fillStyle = ink.band;
  context.fillRect(left, top + tall + 4, side, 3);
  context.fillStyle = ink.soft;
  context.fillRect(left, top + tall + 4, (side * panel.sent[round][rank]) / whole, 3);
  context.globalAlpha = 1;
}

/** The name of a rank above its box; of many on a circle, a number outside it. */
function drawName(context, panel, place, rank, tall, idle) {
  const [x, y] = place.points[rank];
  const root = rank === panel.root;
  const crowded = panel.layout === "circle" && panel.ranks > 16;
  const [right, down] = panel.places[rank];
  const away = place.box / 2 + place.label * 0.75;
  const at = crowded ? [x + right * away, y + down * away] : [x, y - tall / 2 - 4];
  const word = panel.ranks <= 16 && place.box > 44 ? `${root ? "root" : "rank"} ${rank}` : `${rank}`;
  context.globalAlpha = idle ? 0.5 : 1;
  context.font = `${root ? 650 : 500} ${place.label - 4}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = crowded ? "middle" : "bottom";
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = ink.paper;
  context.fillStyle = ink.ink;
  context.strokeText(word, ...at);
  context.fillText(word, ...at);
  context.globalAlpha = 1;
}

function drawHosts(context, panel, place) {
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = ink.soft;
  panel.places.forEach(([column, row], rank) => {
    if (column) return;
    const y = row * place.down + 8;
    context.fillText(`host ${panel.hosts[rank]}`, 0, y + 2);
    context.fillRect(52, y + 1.5, panel.canvas.clientWidth - 52, 1);
  });
}

function drawPackets(context, panel, place, moving, tall, strength) {
  const column = place.box / panel.slots;
  for (const { src, dst, first, into, count, reduce, round, part } of moving) {
    const shift = (slot) => (slot + count / 2) * column - place.box / 2;
    const [from, to] = [place.points[src], place.points[dst]];
    const a = [from[0] + shift(first), from[1]];
    const b = [to[0] + shift(into), to[1]];
    const [x, y] = along(a, bend(a, b, src === dst ? 0 : strength), b, part);
    const width = Math.max(3, count * column);
    const [left, top] = [x - width / 2, y - tall / 2];
    context.fillStyle = ink.paper;
    context.fillRect(left, top, width, tall);
    paint(context, image(panel, round, src), first, count, left, top, width, tall);
    context.strokeStyle = reduce ? ink.reduce : ink.copy;
    context.lineWidth = panel.ranks > 24 ? 1 : 2.5;
    box(context, left - 1, top - 1, width + 2, tall + 2, 3);
    context.stroke();
  }
}
