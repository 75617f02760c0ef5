"use strict";

/* The steps of a strategy as Python packed them, and what of them is drawn in a window of time.
   Times are ticks, whole numbers that count from the begin of a step on its first rank. */

const FEWEST_TO_FOLD = 33;
const GROUP = 32;
const MOST_BARS = 16000;
const MOST_MESSAGES = 3000;
const PHASES = ["step", "compute", "communication", "update", "wait", "other"];
const [, COMPUTE, COMMUNICATION, UPDATE, WAIT] = [0, 1, 2, 3, 4];

async function unpack(text) {
  const bytes = bytesOf(text);
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const [texts, numbers] = await Promise.all([
    inflated(bytes.subarray(4, 4 + size)).arrayBuffer(),
    inflated(bytes.subarray(4 + size)).arrayBuffer(),
  ]);
  const head = JSON.parse(new TextDecoder().decode(texts));
  return new Trace(head, new Uint8Array(numbers));
}

const packed = new Map(
  [...document.querySelectorAll("script[data-trace]")].map((of) => [Number(of.dataset.trace), of]),
);
const unpacking = new Map();

/** The steps of a strategy, unpacked once, or null where the page holds none. */
function traceOf(number) {
  const text = packed.get(number);
  if (text && !unpacking.has(number)) unpacking.set(number, unpack(text.textContent));
  return unpacking.get(number) ?? null;
}

class Trace {
  constructor(head, planes) {
    Object.assign(this, head);
    const count = head.intervals;
    const column = (at) => {
      const values = new Int32Array(count);
      for (let plane = 0; plane < 4; plane++) {
        const from = (4 * at + plane) * count;
        for (let i = 0; i < count; i++) values[i] |= planes[from + i] << (8 * plane);
      }
      return values;
    };
    this.kind = column(0);
    this.start = column(1);
    this.end = column(2);
    let first = 0;
    for (const step of this.steps) {
      const [rows, lanes, shares, counts] = step.tracks;
      step.tracks = counts.map((size, i) => {
        const track = { row: rows[i], lane: lanes[i], of: shares[i], first, last: first + size };
        first += size;
        return track;
      });
      for (const track of step.tracks) this.#addUp(track);
    }
    this.each = this.ranks.length ? this.rows.length / this.ranks.length : 0;
    this.folds = this.ranks.length >= FEWEST_TO_FOLD;
    this.groups = Math.ceil(this.ranks.length / GROUP);
  }

  /** Begins from the end before, and durations, become begins and ends. */
  #addUp({ first, last }) {
    let before = 0;
    for (let i = first; i < last; i++) {
      this.start[i] += before;
      before = this.end[i] += this.start[i];
    }
  }

  /** The name of the rows from `first` to before `last`, folded into one. */
  span(first, last) {
    const alone = this.labels.every((label) => label.startsWith("rank "));
    return alone
      ? `ranks ${this.ranks[first]}–${this.ranks[last - 1]}`
      : `${last - first} kinds from rank ${this.ranks[first]}`;
  }

  rankOf(row) {
    return Math.floor(row / this.each);
  }

  name(i) {
    return this.names[this.kinds[this.kind[i]][0]];
  }

  phase(i) {
    return this.kinds[this.kind[i]][1];
  }

  /** Whether an interval belongs to the step, and not to one beside it. */
  own(step, row, i) {
    const rank = this.rankOf(row);
    return this.start[i] >= step.bounds[0][rank] && this.start[i] < step.bounds[1][rank];
  }

  /** The first interval of a track that ends at `time` or later. */
  firstFrom({ first, last }, time) {
    let [low, high] = [first, last];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * The row where one end of a message is: of the call of as many bytes that was under way on its
   * rank, else the rank's first row of communication.
   */
  messageRow(step, rank, [, , sent, took, bytes]) {
    if (!step.talks) {
      step.talks = this.ranks.map(() => []);
      for (const track of step.tracks) {
        // A call that waits first begins with an interval of waiting.
        let i = track.first;
        while (i < track.last && this.phase(i) === WAIT) i++;
        if (i < track.last && this.phase(i) === COMMUNICATION) step.talks[this.rankOf(track.row)].push(track);
      }
    }
    const own = step.talks[rank];
    const carries = own.find((track) => {
      const i = this.firstFrom(track, sent + took - 2);
      const under = i < track.last && this.start[i] <= sent + 2;
      return under && this.kinds[this.kind[i]][3] === bytes;
    });
    return (carries ?? own[0])?.row ?? rank * this.each;
  }
}

/** Where rows stand, from the top, with a rank's rows together and a folded group as one band. */
function placed(trace, unfolded) {
  const gap = 0.45;
  const top = new Float64Array(trace.rows.length).fill(-1);
  const bands = [];
  let y = 0;
  for (let group = 0; group < trace.groups; group++) {
    const first = group * GROUP;
    const last = Math.min(trace.ranks.length, first + GROUP);
    if (trace.folds && !unfolded.has(group)) {
      bands.push({ group, first, last, top: y, height: 2 });
      y += 2 + gap;
      continue;
    }
    for (let rank = first; rank < last; rank++) {
      for (let at = 0; at < trace.each; at++) top[rank * trace.each + at] = y + at;
      bands.push({ rank, top: y, height: trace.each });
      y += trace.each + gap;
    }
  }
  return { top, bands, height: Math.max(1, y - gap) };
}

/** Polygons of one look, as plotly.js fills them. */
class Shapes {
  constructor() {
    this.looks = new Map();
    this.count = 0;
  }

  at(look) {
    if (!this.looks.has(look)) this.looks.set(look, { x: [], y: [] });
    return this.looks.get(look);
  }

  bar(look, x0, x1, y0, y1) {
    const { x, y } = this.at(look);
    x.push(x0, x1, x1, x0, null);
    y.push(y0, y0, y1, y1, null);
    this.count++;
  }
}

/** Top and bottom of an interval's lane. */
function span(place, { row, lane, of }) {
  const each = 0.86 / of;
  const top = place.top[row] + 0.07 + lane * each;
  return [top, top + each];
}

/**
 * The bars of the unfolded ranks between two instants, and the intervals wide enough for a label.
 * What is narrower than about a pixel is put together, in the colour of most of it.
 */
function bars(trace, step, place, [from, to], pixels, matches) {
  const shapes = new Shapes();
  const labels = [];
  const tracks = step.tracks.filter(({ row }) => place.top[row] >= 0);
  const perPixel = (to - from) / pixels;
  const least = perPixel * Math.max(0.75, (tracks.length * pixels) / MOST_BARS);
  for (const track of tracks) {
    const [y0, y1] = span(place, track);
    let block = null;
    const flush = () => {
      if (!block) return;
      const look = [...block.looks].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
      shapes.bar(look, block.start, Math.max(block.end, block.start + least), y0, y1);
      block = null;
    };
    for (let i = trace.firstFrom(track, from); i < track.last && trace.start[i] <= to; i++) {
      const start = Math.max(from, trace.start[i]);
      const end = Math.min(to, trace.end[i]);
      const own = trace.own(step, track.row, i);
      const found = !matches || matches[trace.kind[i]];
      const look = `${trace.phase(i)}${own ? (found ? "" : "d") : "p"}`;
      if (end - start >= least) {
        flush();
        shapes.bar(look, start, end, y0, y1);
        if (own && found) labels.push({ i, start, end, y: (y0 + y1) / 2, height: y1 - y0 });
        continue;
      }
      if (block && (start - block.end > perPixel || block.end - block.start >= least)) flush();
      block ??= { start, end, looks: new Map() };
      block.end = Math.max(block.end, end);
      // What is searched for shows however short it is.
      const weight = (end - start + 1e-3) * (matches && found ? 1e6 : 1);
      block.looks.set(look, (block.looks.get(look) ?? 0) + weight);
    }
    flush();
  }
  return { shapes, labels };
}

/** How much of each phase the ranks of every folded group are in, over time: stacked areas. */
function areas(trace, step, place, [from, to], pixels, shapes) {
  const bins = Math.max(1, Math.round(pixels / 3));
  const width = (to - from) / bins;
  const stack = [COMPUTE, UPDATE, COMMUNICATION, WAIT, 5];
  for (const band of place.bands) {
    if (band.group === undefined) continue;
    const time = stack.map(() => new Float64Array(bins));
    for (const track of step.tracks) {
      const rank = trace.rankOf(track.row);
      if (rank < band.first || rank >= band.last) continue;
      for (let i = trace.firstFrom(track, from); i < track.last && trace.start[i] < to; i++) {
        const of = time[stack.indexOf(trace.phase(i))];
        if (!of) continue; // a fault is no work
        const start = Math.max(from, trace.start[i]);
        const end = Math.min(to, trace.end[i]);
        const last = Math.min(bins - 1, Math.floor((end - from) / width));
        for (let bin = Math.floor((start - from) / width); bin <= last; bin++) {
          const left = from + bin * width;
          of[bin] += Math.max(0, Math.min(end, left + width) - Math.max(start, left));
        }
      }
    }
    band.time = time;
    band.bins = { from, width, stack };
    const whole = (band.last - band.first) * trace.each * width;
    const below = new Float64Array(bins).fill(band.top + band.height);
    stack.forEach((phase, at) => {
      if (!time[at].some((t) => t > 0)) return;
      const { x, y } = shapes.at(`${phase}`);
      const back = [];
      for (let bin = 0; bin < bins; bin++) {
        const [x0, x1] = [from + bin * width, from + (bin + 1) * width];
        const above = below[bin] - (band.height * Math.min(1, time[at][bin] / whole));
        x.push(x0, x1);
        y.push(above, above);
        back.push([x1, below[bin]], [x0, below[bin]]);
        below[bin] = above;
      }
      // Back along the lower edge, bin by bin from the right.
      for (let i = back.length - 2; i >= 0; i -= 2) {
        x.push(back[i][0], back[i + 1][0]);
        y.push(back[i][1], back[i + 1][1]);
      }
      x.push(null);
      y.push(null);
    });
  }
}

/**
 * The critical path as lines beneath its pieces and from one to the next; between the rows of one
 * rank only where the pieces are wide enough to tell apart.
 */
function pathLines(trace, step, place, [from, to], perPixel) {
  const [x, y] = [[], []];
  let before = null;
  let wide = true;
  for (const [row, begin, end] of step.path) {
    const top = place.top[row];
    if (top < 0 || end < from || begin > to) {
      before = null;
      continue;
    }
    const [x0, x1] = [Math.max(begin, from), Math.min(end, to)];
    const narrow = x1 - x0 < 6 * perPixel;
    const leaves = before !== null && trace.rankOf(before) !== trace.rankOf(row);
    if (leaves || (before !== null && before !== row && (wide || !narrow))) {
      x.push(x0, x0, null);
      y.push(place.top[before] + 0.97, top + 0.97, null);
    }
    x.push(x0, x1, null);
    y.push(top + 0.97, top + 0.97, null);
    before = row;
    wide = !narrow;
  }
  return { x, y };
}

/** The messages under way between two instants, between ranks that are unfolded. */
function messageLines(trace, step, place, [from, to]) {
  const found = [];
  for (const message of step.messages) {
    const [src, dst, sent, took] = message;
    if (sent > to || sent + took < from) continue;
    message.rows ??= [src, dst].map((rank) => trace.messageRow(step, rank, message));
    const { rows } = message;
    const apart = src !== dst; // one between ranks that share a row has nowhere to go
    if (apart && rows.every((row) => place.top[row] >= 0)) found.push({ message, rows });
  }
  const every = Math.max(1, Math.ceil(found.length / MOST_MESSAGES));
  const drawn = found.filter((_, at) => at % every === 0);
  const [x, y, ends] = [[], [], { x: [], y: [] }];
  for (const { message: [, , sent, took], rows } of drawn) {
    const [ya, yb] = rows.map((row) => place.top[row] + 0.5);
    x.push(sent, sent + took, null);
    y.push(ya, yb, null);
    ends.x.push(sent + took);
    ends.y.push(yb);
  }
  return { x, y, ends, drawn: drawn.length, all: found.length };
}

/** What is at an instant and height: an interval, a folded group, or nothing. */
function under(trace, step, place, time, y, reach) {
  const band = place.bands.find((one) => y >= one.top && y < one.top + one.height);
  if (!band) return null;
  if (band.group !== undefined) return { band };
  const row = band.rank * trace.each + Math.floor(y - band.top);
  let best = null;
  for (const track of step.tracks) {
    if (track.row !== row) continue;
    const [y0, y1] = span(place, track);
    const away = y < y0 ? y0 - y : y > y1 ? y - y1 : 0;
    const first = trace.firstFrom(track, time - reach);
    for (let i = first; i < track.last && trace.start[i] <= time + reach; i++) {
      const off = Math.max(0, trace.start[i] - time, time - trace.end[i]);
      const score = away * 1e9 + off;
      if (!best || score < best.score) best = { i, row, rank: band.rank, score };
    }
  }
  return best;
}

/** What a rank sent and received while an interval lasted: [peer, bytes] both ways. */
function peers(trace, step, { i, rank }) {
  const [to, from] = [new Map(), new Map()];
  const [start, end] = [trace.start[i] - 1, trace.end[i] + 1];
  for (const [src, dst, sent, took, bytes] of step.messages) {
    if (src === rank && sent >= start && sent + took <= end) to.set(dst, (to.get(dst) ?? 0) + bytes);
    if (dst === rank && sent >= start && sent + took <= end) {
      from.set(src, (from.get(src) ?? 0) + bytes);
    }
  }
  return { to, from };
}

function seconds(value) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (value >= 0.9995 * scale) return `${Number((value / scale).toPrecision(3))} ${unit}`;
  }
  return value ? `${Number((value / 1e-9).toPrecision(3))} ns` : "0 s";
}

function size(bytes) {
  for (const [unit, scale] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= 0.9995 * scale) return `${Number((bytes / scale).toPrecision(3))} ${unit}`;
  }
  return `${bytes} B`;
}

/** How the critical path divides, in words. */
function pathNote(trace, path) {
  const spent = new Map();
  let [whole, hops, before] = [0, 0, null];
  for (const [, begin, end, phase, rank] of path) {
    spent.set(phase, (spent.get(phase) ?? 0) + end - begin);
    whole += end - begin;
    if (before !== null && rank !== before) hops++;
    before = rank;
  }
  if (!whole) return "";
  const parts = [...spent]
    .filter(([, time]) => time >= 0.005 * whole)
    .sort((a, b) => b[1] - a[1])
    .map(([phase, time]) => `${Math.round((100 * time) / whole)} % ${PHASES[phase] ?? "unknown"}`);
  const often = hops === 1 ? "once" : `${hops} times`;
  const where = hops
    ? `it goes from one rank to another ${often}`
    : `all of it on rank ${path[0][4]}`;
  return `The critical path is ${parts.join(", ")}; ${where}.`;
}
