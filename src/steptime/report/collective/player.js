const { panels: described, sizes, alpha, simulated } = JSON.parse(document.getElementById("data").textContent);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
const player = { at: 0, playing: false, last: 0, speed: 1, pace: byId("pace")?.value ?? "rounds", size: 0 };
const ROUND_MS = 1500;
const WHOLE_MS = 16000;

/* What the ranks hold: a bit for each contribution in each slot, and which chunk it is of. */

function begin(panel) {
  const { ranks, slots } = panel;
  const words = Math.ceil(ranks / 32);
  const holds = { bits: new Uint32Array(ranks * slots * words), chunk: new Int16Array(ranks * slots), words };
  holds.chunk.fill(-1);
  panel.holds.forEach(([first, count], rank) => {
    for (let slot = first; slot < first + count; slot++) {
      const at = rank * slots + slot;
      holds.chunk[at] = slot;
      holds.bits[at * words + (rank >> 5)] |= 1 << (rank & 31);
    }
  });
  return holds;
}

function carryOut(panel, before, transfers) {
  const { slots } = panel;
  const { words } = before;
  const after = { bits: before.bits.slice(), chunk: before.chunk.slice(), words };
  for (const { src, dst, first, into, count, reduce } of transfers) {
    for (let i = 0; i < count; i++) {
      const from = src * slots + first + i;
      const to = dst * slots + into + i;
      for (let word = 0; word < words; word++) {
        const arriving = before.bits[from * words + word];
        if (reduce) after.bits[to * words + word] |= arriving;
        else after.bits[to * words + word] = arriving;
      }
      if (!reduce || after.chunk[to] < 0) after.chunk[to] = before.chunk[from];
    }
  }
  return after;
}

/** Which of two trees a range travels, or −1 where there are none. */
const treeOf = (panel, { first }) => panel.trees[first] ?? -1;

/** What is wrong that this range, in its round, reads or writes. */
function findingsOf(panel, { src, dst, first, into, count, round }) {
  const within = (from, chunk) => from <= chunk && chunk < from + count;
  return panel.findings.filter(([its, rank, chunk]) => its === round
    && ((rank === dst && within(into, chunk)) || (rank === src && within(first, chunk))));
}

const has = (holds, at, rank) => (holds.bits[at * holds.words + (rank >> 5)] >>> (rank & 31)) & 1;

/* A panel: one algorithm, its states, and the elements that show it. */

function open(panel, element) {
  const rounds = panel.rounds.map((numbers) => {
    const transfers = [];
    for (let i = 0; i < numbers.length; i += 6) {
      const [src, dst, first, into, count, reduce] = numbers.slice(i, i + 6);
      transfers.push({ src, dst, first, into, count, reduce: reduce === 1 });
    }
    return transfers;
  });
  const states = [begin(panel)];
  for (const transfers of rounds) states.push(carryOut(panel, states.at(-1), transfers));
  const sent = [new Float64Array(panel.ranks)];
  for (const transfers of rounds) {
    const total = sent.at(-1).slice();
    for (const { src, dst, count } of transfers) if (src !== dst) total[src] += count / panel.chunks;
    sent.push(total);
  }
  const moved = rounds.flat().filter(({ src, dst }) => src !== dst);
  const wires = new Set(moved.map((transfer) => `${transfer.src} ${transfer.dst} ${treeOf(panel, transfer)}`));
  const find = (name) => element.querySelector(name);
  return {
    ...panel, rounds, states, sent, element, ...(simulated ? flights(panel, rounds) : {}),
    wires: [...wires].map((wire) => wire.split(" ").map(Number)),
    canvas: find(".stage"), told: find(".told"), strip: find(".strip"), axis: find(".whole"),
    counter: (name) => find(`[data-of=${name}]`),
    images: new Map(), shownRound: null,
  };
}

const panels = described.map((panel, i) => open(panel, document.querySelectorAll(".panel")[i]));
const most = () => Math.max(...panels.map((panel) => panel.rounds.length));
const slowest = () => Math.max(...panels.map((panel) => ends(panel).at(-1) ?? 0));
const ends = (panel) => panel.ends[player.size];

/** The round that a panel is in and how much of it has passed. */
function position(panel) {
  const count = panel.rounds.length;
  if (player.pace === "rounds") {
    const round = Math.min(Math.floor(player.at + 1e-9), count);
    return { round, part: round === count ? 0 : Math.max(0, player.at - round) };
  }
  const all = ends(panel);
  const round = all.filter((end) => end <= player.at * (1 + 1e-9)).length;
  const from = round ? all[round - 1] : 0;
  return { round, part: round === count ? 0 : (player.at - from) / (all[round] - from) };
}

/** In which round each rank is, and the ranges on their way with how much of it is behind them. */
function moment(panel) {
  if (simulated && player.pace === "time") return simulatedMoment(panel, player.at);
  const { round, part } = position(panel);
  const eased = part < 0.5 ? 2 * part * part : 1 - 2 * (1 - part) * (1 - part);
  const moving = (panel.rounds[round] ?? []).map((transfer) => ({ ...transfer, round, part: eased }));
  return { rounds: Array(panel.ranks).fill(round), moving };
}

const last = () => (player.pace === "rounds" ? most() : slowest());

function marks() {
  if (player.pace === "rounds") return Array.from({ length: most() + 1 }, (_, i) => i);
  return [0, ...new Set(panels.flatMap(ends))].sort((a, b) => a - b);
}

/* Words and numbers. */

function seconds(value) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (value >= 0.9995 * scale) return `${(value / scale).toPrecision(3)} ${unit}`;
  }
  return value ? `${(value / 1e-9).toPrecision(3)} ns` : "0 s";
}

function bytes(value) {
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= 0.9995 * scale) return `${(value / scale).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

function binary(value) {
  const power = Math.min(3, Math.floor(Math.log2(value) / 10));
  return `${+(value / 2 ** (10 * power)).toPrecision(4)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

function tell(panel) {
  const { rounds, moving } = moment(panel);
  const [round, ahead] = [Math.min(...rounds), Math.max(...rounds)];
  const { part } = position(panel);
  const count = panel.rounds.length;
  const sent = Math.max(...rounds.map((its, rank) => panel.sent[its][rank]));
  const all = ends(panel);
  const now = player.pace === "time" ? Math.min(player.at, all.at(-1) ?? 0) : round === count ? all.at(-1) ?? 0 : (round ? all[round - 1] : 0) + part * (all[round] - (round ? all[round - 1] : 0));
  panel.counter("latency").innerHTML = simulated ? `${round} <small>of ${count} done by all</small>`
    : `${round} α <small>of ${count}, ${seconds(round * alpha)}</small>`;
  panel.counter("sent").innerHTML = panel.data ? `${sent.toFixed(2)} S <small>${bytes(sent * sizes[player.size])}</small>` : "–";
  panel.counter("time").innerHTML = `${seconds(now)} <small>of ${seconds(all.at(-1) ?? 0)}</small>`;
  panel.counter("busy").textContent = round < count ? `${Math.round(100 * busyPorts(panel, round, moving))} %` : "–";
  cursor(panel, now);
  const under = Math.min(ahead, count - 1);
  if (panel.shownRound === `${round} ${under}`) return;
  panel.shownRound = `${round} ${under}`;
  const phase = panel.phases.find(([first, to]) => first <= round && round <= to);
  const [where, words] = panel.told.children;
  const within = under > round ? `rounds ${round} to ${under}` : `round ${round}`;
  where.textContent = round < count ? `${within}, of 0 to ${count - 1}` : `after ${count} rounds`;
  words.textContent = phase ? sentence(panel, phase, panel.rounds[round])
    : panel.findings.length ? "Not every rank has what it is to have." : "Every rank has what it is to have.";
  const wrong = panel.findings.filter((finding) => since(panel, finding) === round).map(([, rank, chunk, what]) => ` Wrong: chunk ${chunk} of rank ${rank} ${what}.`);
  if (round < count) words.textContent += wrong.slice(0, 2).join("");
  panel.told.classList.toggle("wrong", wrong.length > 0 || (round >= count && panel.findings.length > 0));
}

/** The round from which a finding is to be seen: at the end what no round has written. */
const since = (panel, [round]) => (round < 0 ? panel.rounds.length : Math.min(round, panel.rounds.length));

/** What happens in a round, with one of its messages as an example of a formula. */
function sentence(panel, [, , words, regular], transfers) {
  const general = words.replace(/^./, (first) => first.toUpperCase());
  const example = transfers.find(({ src, dst }) => src !== dst);
  if (!regular) return `${transfers.length} ranges on their way: ${words}.`;
  if (!/\br\b/.test(words) || !example || !panel.data) return `${general}.`;
  const { src, dst, first, count } = example;
  const what = count === panel.chunks ? "its vector" : count === 1 ? `chunk ${first}` : `chunks ${first} to ${first + count - 1}`;
  return `${general}. Rank ${src} sends ${what} to rank ${dst}.`;
}

/** The share of ports, one in and one out a rank, that something goes through. */
function busyPorts(panel, round, moving) {
  if (!simulated || player.pace !== "time") return panel.busy[round];
  const ports = new Set(moving.filter(({ src, dst }) => src !== dst).flatMap(({ src, dst }) => [`${src} out`, `${dst} in`]));
  return ports.size / (2 * panel.ranks);
}

/** The rounds as bars on the axis of time that all panels share. */
function layStrip(panel) {
  if (simulated) return layFlights(panel, slowest() || 1);
  const whole = slowest() || 1;
  const all = ends(panel);
  panel.strip.setAttribute("viewBox", "0 0 1000 54");
  const bars = panel.rounds.map((transfers, round) => {
    const from = (1000 * (round ? all[round - 1] : 0)) / whole;
    const width = (1000 * all[round]) / whole - from;
    const gap = Math.min(1.5, width * 0.15);
    const high = 50 * panel.busy[round];
    const moving = transfers.filter(({ src, dst }) => src !== dst);
    const reduced = high * (moving.filter(({ reduce }) => reduce).length / (moving.length || 1));
    const bar = (kind, y, height) => `<rect class="${kind}" x="${from}" y="${y}" width="${Math.max(0.1, width - gap)}" height="${height}"/>`;
    const wrong = panel.findings.some((finding) => since(panel, finding) === round);
    return `<g data-round="${round}"${wrong ? ' class="wrong"' : ""}>${bar("ground", 2, 50)}${bar("reduce", 52 - reduced, reduced)}${bar("copy", 52 - high, high - reduced)}</g>`;
  });
  panel.axis.textContent = seconds(whole);
  panel.strip.innerHTML = `${bars.join("")}<line class="now" y1="0" y2="54"/>`;
}

function cursor(panel, now) {
  const { round } = position(panel);
  const line = panel.strip.querySelector(".now");
  const x = Math.min(998, Math.max(2, (1000 * now) / (slowest() || 1)));
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  panel.strip.querySelector(".rest")?.setAttribute("x", x);
  for (const bar of panel.strip.querySelectorAll("g")) bar.classList.toggle("later", Number(bar.dataset.round) > round);
}

function show() {
  for (const panel of panels) {
    draw(panel);
    tell(panel);
  }
  byId("position").value = last() ? (1000 * player.at) / last() : 0;
}

/* Playing. */

function play(on) {
  player.playing = on;
  if (on && player.at >= last() - 1e-12) player.at = 0;
  byId("controls").classList.toggle("playing", on);
  document.querySelector(".play").setAttribute("aria-label", on ? "pause" : "play");
  player.last = performance.now();
  if (on) requestAnimationFrame(frame);
}

function frame(now) {
  if (!player.playing) return;
  const whole = player.pace === "rounds" ? ROUND_MS * most() : WHOLE_MS;
  // A frame may be stamped with a time just before that of the click.
  const passed = (Math.max(0, now - player.last) * player.speed * last()) / whole;
  if (still.matches) {
    const next = marks().find((mark) => mark > player.at + 1e-12);
    if (passed >= (next ?? last()) - player.at) {
      player.last = now;
      player.at = next ?? last();
      show();
    }
  } else {
    player.last = now;
    player.at = Math.min(last(), player.at + passed);
    show();
  }
  if (player.at >= last()) play(false);
  else requestAnimationFrame(frame);
}

function go(to) {
  play(false);
  player.at = Math.max(0, Math.min(last(), to));
  show();
}

const tiny = () => last() * 1e-9;
const actions = {
  start: () => go(0),
  back: () => go(marks().filter((mark) => mark < player.at - tiny()).at(-1) ?? 0),
  play: () => play(!player.playing),
  step: () => go(marks().find((mark) => mark > player.at + tiny()) ?? last()),
  end: () => go(last()),
};

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => actions[button.dataset.do]());
}

addEventListener("keydown", (event) => {
  if (event.target.matches("input:not(#position), select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = { " ": "play", ArrowLeft: "back", ArrowRight: "step", Home: "start", End: "end" }[event.key];
  if (!action || (event.key === " " && event.target.matches("button"))) return;
  event.preventDefault();
  actions[action]();
});

byId("position").addEventListener("input", (event) => go((last() * event.target.value) / 1000));
byId("speed").addEventListener("change", (event) => (player.speed = Number(event.target.value)));
byId("pace")?.addEventListener("change", (event) => {
  const { round } = position(panels[0]);
  player.pace = event.target.value;
  go(player.pace === "rounds" ? round : round ? ends(panels[0])[round - 1] : 0);
});
byId("size")?.addEventListener("input", (event) => resize(Number(event.target.value)));

for (const panel of panels) {
  panel.strip.addEventListener("click", (event) => {
    if (simulated) {
      const { left, width } = panel.strip.getBoundingClientRect();
      byId("pace").value = player.pace = "time";
      return go((slowest() * (event.clientX - left)) / width);
    }
    const bar = event.target.closest("g");
    if (!bar) return;
    const round = Number(bar.dataset.round);
    go(player.pace === "rounds" ? round : round ? ends(panel)[round - 1] : 0);
  });
}

for (const [i, list] of [...document.querySelectorAll(".panel")].entries()) {
  for (const button of list.querySelectorAll(".findings button")) {
    button.addEventListener("click", () => {
      const round = since(panels[i], [Number(button.dataset.round)]);
      go(player.pace === "rounds" ? round : round ? ends(panels[i])[round - 1] : 0);
    });
  }
}

/** Another size of the vector: other times, the same rounds. */
function resize(size) {
  const share = player.pace === "time" && last() ? player.at / last() : null;
  player.size = size;
  if (share !== null) player.at = share * last();
  if (byId("size-text")) byId("size-text").textContent = binary(sizes[size]);
  byId("time-head").textContent = byId("size") ? `for S = ${binary(sizes[size])}` : "";
  const fastest = Math.min(...panels.map((panel) => ends(panel).at(-1) ?? 0));
  document.querySelectorAll("[data-time]").forEach((cell, i) => {
    const time = ends(panels[i]).at(-1) ?? 0;
    cell.textContent = seconds(time);
    cell.classList.toggle("best", panels.length > 1 && time === fastest);
  });
  byId("answer").textContent = answer();
  byId("answer").classList.toggle("wrong", panels.some((panel) => panel.findings.length > 0));
  panels.forEach(layStrip);
  show();
}

/** Which is the fastest and what that rests on, in a sentence. */
function answer() {
  const wrong = panels.filter((panel) => panel.findings.length);
  if (wrong.length) return `${panels.length > 1 ? wrong[0].title : "It"} is wrong: ${wrongSince(wrong[0])}.`;
  const size = panels.some(({ data }) => data) ? `For S = ${binary(sizes[player.size])} ` : "";
  const doubt = simulated ? "simulated" : "computed, not measured";
  const times = panels.map((panel) => ({ panel, time: ends(panel).at(-1) ?? 0 })).sort((a, b) => a.time - b.time);
  const rivals = panels.length > 1 && panels.every(({ collective }) => collective === panels[0].collective);
  const [first, ...others] = times.map(({ panel, time }) => `${rivals ? panel.algorithm : panel.title} ${seconds(time)}`);
  const text = panels.length === 1 ? `${size}it takes ${seconds(times[0].time)}; ${doubt}.`
    : rivals ? `${size}${times[0].panel.algorithm} is the fastest: ${[first, ...others].join(", ")}; ${doubt}.`
      : `${size}${[first, ...others].join(", ")}; ${doubt}.`;
  return text.replace(/^./, (letter) => letter.toUpperCase());
}

/** Where a wrong algorithm goes wrong first. */
function wrongSince(panel) {
  const [round, rank, chunk, what] = panel.findings.reduce((a, b) => (since(panel, b) < since(panel, a) ? b : a));
  return `${round < 0 ? "no round writes" : `in round ${round},`} chunk ${chunk} of rank ${rank}${round < 0 ? "" : ` ${what}`}`;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "soft", "band", "mark", "reduce", "copy", "wire", "empty", "wrong", "tree0", "tree1"];
  ink = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

dark.addEventListener("change", () => {
  theme();
  show();
});
addEventListener("resize", show);
theme();
byId("page").focus({ preventScroll: true }); // so that the keys which scroll a page scroll it
resize(Number(byId("size")?.value ?? 0));
