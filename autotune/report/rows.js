// The rows of a report's page, which are there without a script: sorted, searched, grouped and
// folded. charts.js stands before this. The first part needs no page, so that a test can call it.

/// Lower-case words, all of which a row must have somewhere.
function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(word => word !== "");
}
function matches(text, words) {
  return words.every(word => text.includes(word));
}

function countText(shown, all) {
  return `${shown === all ? all : `${shown} of ${all}`} kernel${all === 1 ? "" : "s"}`;
}

/// Two numbers or two texts. What is not known (null) is last, whichever way.
function compare(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  return descending ? -order : order;
}

//===- Rows -----------------------------------------------------------------------------------===//

const chosen = { column: 0, descending: false };
let texts = [], homes = [];

/// What a row is sorted by in a column: its cell's number, or its text.
function keyOf(row, column) {
  const cell = row.cells[column], value = cell.dataset.value;
  if (value === undefined) return (cell.querySelector("summary") ?? cell).textContent;
  return value === "" ? null : Number(value);
}

function sort() {
  const { column, descending } = chosen;
  for (const body of document.querySelectorAll("tbody"))
    body.append(...[...body.rows].sort((a, b) =>
      compare(keyOf(a, column), keyOf(b, column), descending)));
  for (const head of document.querySelectorAll("thead th"))
    head.setAttribute("aria-sort", head.cellIndex !== column ? "none"
                                   : descending ? "descending" : "ascending");
  document.getElementById("column").value = column;
  const order = document.getElementById("order");
  order.setAttribute("aria-pressed", descending);
  order.textContent = descending ? "↓" : "↑";
}

function sortBy(column, descending) {
  chosen.column = column;
  chosen.descending = descending;
  sort();
}

function filter() {
  const words = wordsOf(document.getElementById("search").value);
  const direction = document.getElementById("direction").value;
  rows.forEach((row, i) => {
    row.hidden = !matches(texts[i], words) || (direction && row.dataset.direction !== direction);
  });
  count();
  dim();
}

/// Groups without a row that is shown are not shown; the others tell how many of theirs are.
function count() {
  const shownOf = list => list.filter(row => !row.hidden).length;
  for (const group of document.querySelectorAll(".rows")) {
    const own = [...group.querySelector("tbody").rows], shown = shownOf(own);
    group.hidden = shown === 0;
    group.querySelector(".many").textContent = countText(shown, own.length);
  }
  document.getElementById("found").textContent = countText(shownOf(rows), rows.length);
}

/// All rows of a device in one group, or each in its own.
function regroup() {
  const flat = document.getElementById("grouping").value === "flat";
  rows.forEach((row, i) => {
    const section = homes[i].closest(".device");
    (flat ? section.querySelector(".flat tbody") : homes[i]).append(row);
  });
  sort();
  count();
}

/// A group for all rows of a device, with the columns of the others.
function addFlatGroups() {
  for (const section of document.querySelectorAll(".device")) {
    const first = section.querySelector(".rows");
    const group = make("details", { class: "group rows flat", open: "" });
    const summary = make("summary", {}, group);
    make("h3", {}, summary, "all kernels");
    make("span", { class: "many" }, summary);
    const table = make("table", {}, make("div", { class: "scroll" }, group));
    table.append(first.querySelector("thead").cloneNode(true), make("tbody", {}));
    first.before(group);
  }
}

function addTools() {
  const column = document.getElementById("column");
  const heads = document.querySelector("thead").rows[0].cells;
  for (const head of heads)
    make("option", { value: head.cellIndex }, column, head.textContent);
  for (const head of document.querySelectorAll("thead th")) {
    const button = make("button", { type: "button" }, null, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(head.cellIndex,
      head.getAttribute("aria-sort") === "ascending"));
  }
  const on = (id, event, action) => document.getElementById(id).addEventListener(event, action);
  on("search", "input", filter);
  on("direction", "change", filter);
  on("grouping", "change", regroup);
  on("column", "change", () => sortBy(Number(column.value), false));
  on("order", "click", () => sortBy(chosen.column, !chosen.descending));
  on("fold", "click", () => fold(false));
  on("unfold", "click", () => fold(true));
  on("tools", "submit", event => event.preventDefault());
  document.getElementById("tools").hidden = false;
}

function fold(open) {
  for (const group of document.querySelectorAll(".rows")) group.open = open;
}

/// Paper shows what is folded.
function addPrinting() {
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(".rows:not([open])")];
    for (const group of folded) group.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const group of folded) group.open = false;
  });
}

function start() {
  lines = JSON.parse(document.getElementById("data").textContent).lines;
  if (lines.length) {
    rows = lines.map((_, i) => document.getElementById(`line-${i}`));
    texts = rows.map(row => row.textContent.toLowerCase());
    homes = rows.map(row => row.parentNode);
    addFlatGroups();
    addTools();
    addCharts();
    addPrinting();
    if (window.matchMedia("(max-width: 44rem)").matches) fold(false); // a phone begins with groups
    sort();
    filter();
  }
  document.documentElement.dataset.drawn = charts;
}

if (typeof document !== "undefined") start();
