"use strict";
// The charts of a report's page, drawn from its JSON: under the mouse, the finger or the arrow keys
// their points say whose they are. What comes from a store is only ever given to textContent and
// setAttribute. The first part needs no page, so that a test can call it.

/// The owner of the segment that is nearest to a place and not farther than `reach`; -1: none is.
function nearest(segments, x, y, reach) {
  let best = reach, owner = -1;
  for (const s of segments) {
    const dx = s.x2 - s.x1, dy = s.y2 - s.y1, square = dx * dx + dy * dy;
    const t = square ? Math.min(1, Math.max(0, ((x - s.x1) * dx + (y - s.y1) * dy) / square)) : 0;
    const distance = Math.hypot(x - s.x1 - t * dx, y - s.y1 - t * dy);
    if (distance <= best) [best, owner] = [distance, s.owner];
  }
  return owner;
}

/// Powers of ten around what is drawn, at least two.
function powers(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.max(first + 1, Math.ceil(Math.log10(high)));
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}
/// From 0 to `high` in about `count` steps of 1, 2 or 5 times a power of ten.
function steps(high, count) {
  const power = 10 ** Math.floor(Math.log10(high / count));
  const step = power * [1, 2, 5, 10].find(times => times * power >= high / count);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
}
function bytesText(bytes) {
  const unit = ["B", "KB", "MB", "GB", "TB"];
  const place = Math.min(unit.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${+(bytes / 1000 ** place).toPrecision(3)} ${unit[place]}`;
}
const valueOf = figure => figure ? figure.value : 0;

//===- Charts ---------------------------------------------------------------------------------===//

const svgNames = "http://www.w3.org/2000/svg";
let lines = [], rows = [], charts = 0;

function make(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
function draw(name, attributes, parent, text) {
  const made = document.createElementNS(svgNames, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

/// A section with a chart that is drawn anew whenever its width changes. `paint(svg, size)` draws
/// it and returns segments, whose owners are lines; `tell(line)` says what one of them is.
function addChart(parent, title, note, legend, height, paint, tell) {
  const section = make("section", {}, parent);
  make("h2", { id: `chart-${++charts}` }, section, title);
  make("p", { class: "note", id: `note-${charts}` }, section, note);
  if (legend.length) section.append(legendOf(legend));
  const plot = make("div", { class: "plot", tabindex: 0, role: "group",
    "aria-roledescription": "chart", "aria-label": `${title}: arrow keys go from point to point` },
    section);
  const svg = draw("svg", { role: "img", "aria-labelledby": `chart-${charts}`,
    "aria-describedby": `note-${charts}` }, plot);
  const chart = { plot, svg, tell, segments: [], at: -1, pinned: false };
  chart.tip = make("div", { class: "tip", role: "status", hidden: "" }, plot);
  chart.redraw = (width = Math.max(280, Math.min(plot.clientWidth || 760, 1400))) => {
    svg.replaceChildren();
    for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height }))
      svg.setAttribute(key, value);
    chart.segments = paint(svg, { width, height });
    point(chart, -1);
    dim();
  };
  listen(chart);
  if (typeof ResizeObserver !== "undefined") {
    let width = -1;
    new ResizeObserver(() => {
      if (plot.clientWidth !== width && plot.clientWidth > 0) {
        width = plot.clientWidth;
        chart.redraw();
      }
    }).observe(plot);
  }
  window.addEventListener("beforeprint", () => chart.redraw(700)); // a sheet of paper
  window.addEventListener("afterprint", () => chart.redraw());
  chart.redraw();
}

function legendOf(entries) {
  const list = make("ul", { class: "legend" });
  for (const [kind, words] of entries) {
    const item = make("li", {}, list);
    const svg = draw("svg", { width: 14, height: 14, "aria-hidden": "true" }, item);
    shape(kind, 7, 7, svg, kind);
    item.append(words);
  }
  return list;
}

/// The sign of a kind of time, the same in charts and rows.
function shape(kind, x, y, parent, mark) {
  const attributes = { class: kind, ...(mark ? {} : { "data-mark": kind }) };
  if (kind === "copy" || kind === "vendor")
    return draw("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...attributes }, parent);
  return draw("circle", { cx: x, cy: y, r: kind === "default" ? 5.5 : 4, ...attributes }, parent);
}

/// Names the line under the mouse, the finger or the keyboard's cursor.
function listen(chart) {
  const { plot, svg } = chart;
  const under = event => {
    const box = svg.getBoundingClientRect();
    const shown = chart.segments.filter(s => !rows[s.owner].hidden);
    return nearest(shown, event.clientX - box.left, event.clientY - box.top, 22);
  };
  svg.addEventListener("pointermove", event => {
    if (!chart.pinned && event.pointerType === "mouse") point(chart, under(event));
  });
  svg.addEventListener("pointerleave", () => chart.pinned || point(chart, -1));
  svg.addEventListener("click", event => point(chart, under(event), true));
  plot.addEventListener("focusout", event => {
    if (!plot.contains(event.relatedTarget)) point(chart, -1);
  });
  plot.addEventListener("keydown", event => {
    const order = [...new Set(chart.segments.filter(s => !rows[s.owner].hidden)
      .sort((a, b) => a.x1 - b.x1).map(s => s.owner))];
    const at = order.indexOf(chart.at);
    const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? order.length - 1 : at - 1, Home: 0,
                 End: order.length - 1 }[event.key];
    if (event.key === "Escape") point(chart, -1);
    else if (event.key === "Enter" && event.target === plot && at >= 0) show(chart.at);
    else if (to !== undefined && order.length)
      point(chart, order[Math.min(order.length - 1, Math.max(0, to))], true);
    else return;
    event.preventDefault();
  });
}

/// Shows what a line is at its point; -1: nothing.
function point(chart, line, pinned = false) {
  const { tip, svg } = chart;
  svg.querySelector(".halo")?.remove();
  svg.querySelector(".lit")?.classList.remove("lit");
  chart.at = line;
  chart.pinned = pinned && line >= 0;
  tip.hidden = line < 0;
  if (line < 0) return;
  tip.classList.toggle("pinned", chart.pinned);
  tip.replaceChildren(...chart.tell(line).map(text => make("p", {}, null, text)));
  if (chart.pinned) {
    const link = make("a", { href: `#line-${line}` }, make("p", {}, tip), "its row");
    link.addEventListener("click", event => { event.preventDefault(); show(line); });
  }
  const own = chart.segments.filter(s => s.owner === line), place = own[0];
  if (own.length === 1)
    draw("circle", { class: "halo", cx: place.x1, cy: place.y1, r: 9 }, svg);
  else
    svg.querySelector(`[data-line="${line}"]`).classList.add("lit");
  const left = Math.min(place.x1 + 14, svg.clientWidth - tip.offsetWidth - 4);
  const above = place.y1 - tip.offsetHeight - 12;
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${above < 0 ? place.y1 + 14 : above}px`;
}

/// Unfolds, opens and looks at the row of a line.
function show(line) {
  const row = rows[line];
  if (row.hidden) {
    document.getElementById("search").value = document.getElementById("direction").value = "";
    filter();
  }
  row.closest(".group").open = true;
  for (const found of document.querySelectorAll("tr.found")) found.classList.remove("found");
  row.classList.add("found");
  const label = row.querySelector("details");
  label.open = true;
  row.scrollIntoView({ block: "center" });
  label.querySelector("summary").focus({ preventScroll: true });
}

/// Points of rows that are filtered out.
function dim() {
  for (const mark of document.querySelectorAll("#charts [data-line]"))
    mark.classList.toggle("dim", rows[mark.dataset.line].hidden);
}

const frame = { left: 54, right: 24, top: 10, bottom: 40 };

/// From values to places, with a line across at each tick. `scale`: from `low` to `high`, by
/// logarithms or not.
function axis(svg, along, size, scale, label, words) {
  const f = scale.log ? Math.log10 : x => x, across = along === "x";
  const [from, to] = across ? [frame.left, size.width - frame.right]
                            : [size.height - frame.bottom, frame.top];
  const foot = size.height - frame.bottom, side = size.width - frame.right;
  const at = x => from + (to - from) * (f(x) - f(scale.low)) / (f(scale.high) - f(scale.low));
  for (const tick of scale.ticks) {
    const p = at(tick);
    draw("line", across ? { class: "grid", x1: p, x2: p, y1: frame.top, y2: foot }
                        : { class: "grid", x1: frame.left, x2: side, y1: p, y2: p }, svg);
    draw("text", across ? { x: p, y: foot + 16, "text-anchor": "middle" }
                        : { x: frame.left - 6, y: p + 4, "text-anchor": "end" }, svg, words(tick));
  }
  draw("text", across ? { x: (from + to) / 2, y: size.height - 4, "text-anchor": "middle" }
    : { x: -(from + to) / 2, y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, svg, label);
  return at;
}

function addRoofline(parent, device, known) {
  const rate = (line, time) => line.bytes / time / 1e3;
  const of = (line, kind) => valueOf(line[`${kind}_us`]);
  const roofOf = i => rate(lines[i], lines[i].roofline_us);
  const moving = known.filter(i => lines[i].roofline_limit === "bytes");
  const rates = known.map(i => rate(lines[i], of(lines[i], "chosen")));
  const most = Math.max(...known.map(roofOf), ...rates) * 1.03;
  const bytes = known.map(i => lines[i].bytes);
  const ticks = powers(Math.min(...bytes), Math.max(...bytes));
  const paint = (svg, size) => {
    const x = axis(svg, "x", size, { log: true, low: ticks[0], high: ticks.at(-1), ticks },
                   "bytes that a kernel moves at least", bytesText);
    const y = axis(svg, "y", size, { low: 0, high: most, ticks: steps(most, 5) }, "GB/s", String);
    const addRoof = (from, to, height) =>
      draw("line", { class: "roof", x1: from, x2: to, y1: height, y2: height }, svg);
    if (moving.length) addRoof(frame.left, size.width - frame.right, y(roofOf(moving[0])));
    for (const i of known)
      if (lines[i].roofline_limit !== "bytes")
        addRoof(x(lines[i].bytes) - 8, x(lines[i].bytes) + 8, y(roofOf(i)));
    for (const kind of ["copy", "default", "chosen"])
      for (const i of known)
        if (of(lines[i], kind))
          shape(kind, x(lines[i].bytes), y(rate(lines[i], of(lines[i], kind))), svg)
            .setAttribute("data-line", i);
    return known.map(i => {
      const at = { x: x(lines[i].bytes), y: y(rate(lines[i], of(lines[i], "chosen"))) };
      return { owner: i, x1: at.x, y1: at.y, x2: at.x, y2: at.y };
    });
  };
  const tell = i => {
    const line = lines[i], texts = [line.label];
    for (const [kind, name] of [["chosen", "choice"], ["default", "default"],
                                ["vendor", line.vendor], ["copy", "plain copy"]])
      if (of(line, kind))
        texts.push(`${name}: ${of(line, kind).toFixed(2)} µs, ` +
                   `${rate(line, of(line, kind)).toFixed(0)} GB/s`);
    texts.push(`${(100 * line.share_of_roofline).toFixed(0)} % of the roofline` +
      (line.roofline_limit ? `, which is of ${line.roofline_limit}` : ""));
    return texts;
  };
  addChart(parent, `Roofline, ${device}`, "How fast the bytes that a kernel cannot do without are " +
    "moved. A kernel that tensor cores or exponentials limit has a roof of its own, which is short. " +
    "Point at a mark to learn whose it is; click to keep it.",
    [["chosen", "the choice"], ["default", "the default"], ["copy", "a plain copy"]], 360, paint,
    tell);
}

function addProgress(parent, known) {
  const end = Math.max(1e-3, ...known.map(i => lines[i].best_so_far.at(-1)[0])) * 1.05;
  const last = i => lines[i].best_so_far.at(-1)[1];
  const most = Math.max(1.02, ...known.map(i => lines[i].best_so_far[0][1] / last(i)));
  const short = tick => `${+tick.toPrecision(4)}`;
  const paint = (svg, size) => {
    const segments = [];
    const x = axis(svg, "x", size, { low: 0, high: end, ticks: steps(end, 5) },
                   "seconds of the search", short);
    const times = steps(most - 1, 4).map(t => t + 1);
    const y = axis(svg, "y", size, { low: 1, high: most, ticks: times }, "over the best", short);
    for (const i of known) {
      let at = null, path = "";
      const lineTo = (toX, toY) => {
        if (at) segments.push({ owner: i, x1: at.x, y1: at.y, x2: toX, y2: toY });
        path += `${at ? "L" : "M"}${toX},${toY}`;
        at = { x: toX, y: toY };
      };
      for (const [second, best] of lines[i].best_so_far) {
        if (at) lineTo(x(second), at.y);
        lineTo(x(second), y(best / last(i)));
      }
      lineTo(x(end), at.y);
      draw("path", { class: "best", d: path, "data-mark": "best", "data-line": i }, svg);
    }
    return segments;
  };
  const tell = i => [lines[i].label, `${lines[i].best_so_far[0][1].toFixed(2)} µs at first, ` +
    `${last(i).toFixed(2)} µs after ${lines[i].best_so_far.at(-1)[0].toFixed(1)} s`];
  const folded = make("details", { class: "group" }, parent);
  make("h3", {}, make("summary", {}, folded), "How the searches went");
  addChart(make("div", { class: "scroll" }, folded), "Best so far", "The best time of each search " +
    "over its last best, by seconds since its first measurement.", [], 300, paint, tell);
}

function addCharts() {
  const parent = document.getElementById("charts");
  const all = lines.map((_, i) => i);
  for (const device of new Set(lines.map(line => `${line.device} (${line.arch})`))) {
    const known = all.filter(i => `${lines[i].device} (${lines[i].arch})` === device &&
      lines[i].bytes && lines[i].roofline_us && valueOf(lines[i].chosen_us));
    if (known.length) addRoofline(parent, device, known);
  }
  const searched = all.filter(i => lines[i].best_so_far.length > 0);
  if (searched.length) addProgress(parent, searched);
}
