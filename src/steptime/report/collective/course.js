/* What a simulation adds: each rank goes on as soon as it is done, and each message has its times. */

const ROW = 10; // of the strip's own height for a rank

/** Each range's times, and when each rank is done with each round. */
function flights(panel, rounds) {
  const times = new Map(panel.messages.map(([round, src, dst, sent, received]) => [`${round} ${src} ${dst}`, { sent, received }]));
  const done = [];
  rounds.forEach((transfers, round) => {
    const ends = round ? done[round - 1].slice() : new Float64Array(panel.ranks);
    for (const transfer of transfers) {
      Object.assign(transfer, times.get(`${round} ${transfer.src} ${transfer.dst}`));
      if (transfer.received === undefined) continue; // it stays within a rank
      for (const rank of [transfer.src, transfer.dst]) ends[rank] = Math.max(ends[rank], transfer.received);
    }
    done.push(ends);
  });
  return { done };
}

/** As ``moment``, at a time in seconds. */
function simulatedMoment(panel, now) {
  const late = now * (1 + 1e-9);
  const rounds = Array.from({ length: panel.ranks }, (_, rank) => {
    const under = panel.done.findIndex((ends) => ends[rank] > late);
    return under < 0 ? panel.rounds.length : under;
  });
  const moving = panel.rounds.flatMap((transfers, round) =>
    transfers
      .filter(({ sent, received }) => sent <= late && received > late)
      .map((transfer) => ({ ...transfer, round, part: (now - transfer.sent) / (transfer.received - transfer.sent) })),
  );
  return { rounds, moving };
}

/** A row for each rank, from rank 0 down: the messages to it, from sending to arrival. */
function layFlights(panel, whole) {
  const height = ROW * panel.ranks;
  const paths = { copy: "", reduce: "" };
  for (const { dst, sent, received, reduce } of panel.rounds.flat()) {
    if (received === undefined) continue;
    const width = Math.max(0.4, (1000 * (received - sent)) / whole - 0.6);
    paths[reduce ? "reduce" : "copy"] += `M${(1000 * sent) / whole} ${ROW * dst + 1}h${width}v${ROW - 2}h${-width}z`;
  }
  const borders = panel.hosts.flatMap((host, rank) => (rank && host !== panel.hosts[rank - 1] ? [ROW * rank] : []));
  panel.strip.setAttribute("viewBox", `0 0 1000 ${height}`);
  panel.strip.style.height = `${Math.max(54, Math.min(260, 9 * panel.ranks))}px`;
  panel.axis.textContent = seconds(whole);
  panel.strip.innerHTML = `<rect class="ground" width="1000" height="${height}"/>`
    + Object.entries(paths).map(([kind, path]) => `<path class="${kind} flight" d="${path}"/>`).join("")
    + borders.map((y) => `<line class="border" x2="1000" y1="${y}" y2="${y}"/>`).join("")
    + `<rect class="rest" width="1000" height="${height}"/><line class="now" y1="0" y2="${height}"/>`;
}
