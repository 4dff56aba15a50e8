"use strict";

/* Charts take colours from the page by currentColor, so that dark mode and print need no redraw. */
const INK = "currentColor";
const views = new Map();

function style(width, room, shown) {
  const columns = Math.max(1, Math.floor((width - room.beside) / (1.1 * room.name + 30)));
  const size = Math.max(9, Math.min(12, 12 * (width - 40) / (1.1 * room.name)));
  return {
    background: "transparent",
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    axis: {
      domainColor: INK, tickColor: INK, labelColor: INK, titleColor: INK, gridColor: INK,
      gridOpacity: 0.15, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
    },
    axisY: { labelLimit: width < 600 ? 175 : 340 },
    header: { labelColor: INK, labelFontSize: 13, labelLimit: 0 },
    legend: {
      ...room.legend, disable: !shown, orient: "bottom", columns, labelColor: INK, titleColor: INK,
      labelFontSize: size, labelLimit: 0, symbolLimit: 0, titleLimit: 300,
    },
    rule: { color: INK },
    tick: { color: INK },
    text: { color: INK },
    view: { stroke: null },
  };
}

/* Names stand at the ends of lines if they leave most of the room to the lines; else in a legend. */
function placeNames(spec, room, width) {
  const ends = room.ends > 0 && room.ends < 0.45 * width;
  if (ends) {
    const pick = spec.params.find((param) => param.name === "pick");
    pick.views = ["ends"];
    delete pick.bind;
  } else if (room.ends > 0) {
    spec.layer = spec.layer.filter((layer) => !["ends", "leaders"].includes(layer.name));
  }
  return ends;
}

async function draw(place) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  const room = { ends: 0, name: 120, beside: 65, ...spec.usermeta };
  const width = place.clientWidth;
  const boxes = [...place.closest("section").querySelectorAll("input.series")];
  views.get(place)?.view?.finalize();
  views.set(place, { width });
  if (boxes.some((box) => box.checked !== box.defaultChecked)) {
    const labels = boxes.filter((box) => box.checked).map((box) => box.value);
    if (!await choose(spec, room, place, labels)) {
      place.textContent = "None of the rows that are chosen has these numbers.";
      return;
    }
  }
  if (place.dataset.rows) {
    const [rows] = Object.values(spec.datasets).filter((own) => !("end" in (own[0] ?? {})));
    tabulate(document.getElementById(`${place.id}-numbers`), rows);
  }
  if (spec.facet) {
    spec.columns = Math.max(1, Math.floor(width / (spec.spec.width + room.beside)));
  } else if (spec.concat) {
    spec.columns = width < 900 ? 1 : 2;
    for (const panel of spec.concat) panel.width = width / spec.columns - room.beside;
  } else {
    spec.width = "container";
  }
  const ends = placeNames(spec, room, width);
  const drawn = await vegaEmbed(place, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
    config: style(width, room, !ends), tooltip: { disableDefaultStyle: true },
  });
  views.set(place, { view: drawn.view, width });
}

async function unpack(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/* Of a dozen series or fewer the chart has all rows; of more, those of others are packed beside it. */
async function choose(spec, room, place, labels) {
  const all = document.getElementById(`${place.closest("section").id}-series`);
  let series = labels.map((label) => ({ label, name: label }));
  let rows = null;
  if (all) {
    series = named((await unpack(all.id)).filter((each) => labels.includes(each.label)));
    document.getElementById(`${place.id}-common`).textContent = inCommon(series);
    rows = await rowsOf(place.dataset.rows, new Map(series.map((each) => [each.label, each])), spec);
    room.name = 6.6 * Math.max(0, ...series.map((each) => each.name.length));
  }
  let count = 0;
  for (const [name, own] of Object.entries(spec.datasets)) {
    const isEnds = own.length > 0 && "end" in own[0];
    const names = series.map((each) => each.name);
    if (isEnds && !names.every((each) => own.some((row) => row.label === each))) room.ends = 0;
    spec.datasets[name] = rows && !isEnds ? rows : own.filter((row) => names.includes(row.label));
    if (!isEnds) count = spec.datasets[name].length;
  }
  if (room.ends === 0 && spec.layer) {
    spec.layer = spec.layer.filter((layer) => !["ends", "leaders"].includes(layer.name));
  }
  rescale(spec, series);
  if (rows) fit(spec, rows);
  return count > 0;
}

/* Names leave out what the title says of all of them. */
function shared(series) {
  const lacks = (each, text) => each.free && series.some((other) => other.size === text);
  const remarks = [...new Set(series.flatMap((each) => each.remarks))];
  return series.length < 2 ? [] : remarks.filter((text) =>
    series.every((each) => each.remarks.includes(text) || lacks(each, text)));
}

function inCommon(series) {
  const cut = series.filter((each) => each.cut).length;
  const data = cut === 0 ? "" : cut < series.length ? " (partly cut-down data)" : " (cut-down data)";
  const remarks = shared(series).join(", ");
  return data + (remarks ? ` (${remarks})` : "");
}

function named(series) {
  const common = shared(series);
  return series.map((each) => {
    const remarks = each.remarks.filter((text) => !common.includes(text)).join(", ");
    return { ...each, name: remarks ? `${each.title} (${remarks})` : each.title };
  });
}

async function rowsOf(id, series, spec) {
  const columns = await unpack(id);
  const keys = Object.keys(columns);
  const letters = Math.floor((spec.spec?.width ?? 200) / 6.6);
  const lines = new RegExp(`(.{1,${letters}})(?:\\s+|$)`, "g");
  const rows = [];
  columns.label.forEach((label, index) => {
    if (!series.has(label)) return;
    const row = Object.fromEntries(keys.map((key) => [key, columns[key][index]]));
    row.label = series.get(label).name;
    row.panel = row.label.replace(lines, "$1¶").replace(/¶$/, "");
    if ("sd" in row) [row.low, row.high] = [row.acc - (row.sd ?? 0), row.acc + (row.sd ?? 0)];
    rows.push(row);
  });
  if (spec.facet) spec.facet.sort = [...new Set(rows.map((row) => row.panel))];
  return rows;
}

function rescale(part, series, channel = "") {
  if (part === null || typeof part !== "object") return;
  if (part.field === "label" && part.scale?.domain) {
    const { domain, range } = part.scale;
    const look = (each) => each[channel] ?? range[domain.indexOf(each.name)];
    part.scale = { ...part.scale, domain: series.map((each) => each.name), range: series.map(look) };
  }
  for (const [key, each] of Object.entries(part)) if (key !== "datasets") rescale(each, series, key);
}

function fit(spec, rows) {
  const ends = ["low", "high"].map((key) => rows.map((row) => row[key]).filter(Number.isFinite));
  if (!ends[0].length) return;
  const low = 10 * Math.floor(Math.max(0, Math.min(...ends[0])) / 10);
  const high = Math.max(low + 10, 10 * Math.ceil(Math.min(100, Math.max(...ends[1])) / 10));
  for (const { encoding } of spec.layer ?? spec.spec?.layer ?? []) {
    if (Array.isArray(encoding.y?.scale?.domain)) encoding.y.scale.domain = [low, high];
  }
}

function tabulate(table, rows) {
  const keys = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  table.tBodies[0].replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    for (const value of keys.map((key) => row[key] ?? "")) {
      const cell = line.insertCell();
      cell.textContent = Number.isInteger(value) || typeof value === "string" ? value : value.toFixed(2);
      if (typeof value === "number") cell.className = "number";
    }
    return line;
  }));
}

const MOST = 12;

function chosen(section) {
  for (const place of section.querySelectorAll(".chart")) {
    views.get(place)?.view?.finalize();
    views.delete(place);
  }
  limit(section);
  return drawVisible();
}

function limit(section) {
  const boxes = [...section.querySelectorAll("input.series")];
  const count = boxes.filter((box) => box.checked).length;
  for (const box of boxes) box.disabled = boxes.length > MOST && count >= MOST && !box.checked;
}

/* Boxes before the rows of a table, whose rows are in the order of the series. */
async function setBoxes(section) {
  const table = section.querySelector(".chooser table");
  if (!table) return;
  const head = Object.assign(document.createElement("th"), { textContent: "Drawn", scope: "col" });
  table.tHead.rows[0].prepend(head);
  const series = await unpack(`${section.id}-series`);
  [...table.tBodies[0].rows].forEach((row, index) => {
    const { label, color, drawn } = series[index];
    const cell = row.insertCell(0);
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", className: "series", value: label, defaultChecked: drawn });
    box.ariaLabel = `draw ${label}`;
    const mark = document.createElement("i");
    mark.style.background = color;
    cell.className = "draw";
    cell.append(box, mark);
  });
}

async function letChoose(section) {
  await setBoxes(section);
  limit(section);
  const tools = section.querySelectorAll(".tools[data-table]");
  tools.forEach(filter);
  section.addEventListener("change", (event) => {
    if (!event.target.matches("input.series")) return;
    tools.forEach(filter);
    chosen(section);
  });
  section.querySelector(".draw-shown")?.addEventListener("click", () => {
    const rows = [...section.querySelectorAll(".chooser tbody tr")];
    const first = rows.filter((row) => !row.hidden).slice(0, MOST);
    for (const row of rows) row.querySelector("input").checked = first.includes(row);
    tools.forEach(filter);
    chosen(section);
  });
}

function key(cell) {
  if (cell.dataset.number !== undefined) return Number(cell.dataset.number);
  const text = cell.textContent.trim();
  return cell.className === "number" && text !== "" ? Number.parseFloat(text) : text;
}

function compare(a, b, sign) {
  const empty = (value) => value === "";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
}

function sort(table, index) {
  const heads = [...table.tHead.rows[0].cells];
  const up = heads[index].classList.contains("number") ? "descending" : "ascending";
  const down = up === "ascending" ? "descending" : "ascending";
  const order = heads[index].getAttribute("aria-sort") === up ? down : up;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[index].setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].map((row) => [key(row.cells[index]), row]);
  rows.sort((a, b) => compare(a[0], b[0], sign));
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("main table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head) => {
    head.querySelector("button")?.addEventListener("click", () => sort(table, head.cellIndex));
  });
}

function filter(tools) {
  const words = tools.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const table = document.getElementById(tools.dataset.table);
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  const picks = [...tools.querySelectorAll("select")].filter((select) => select.value !== "")
    .map((select) => [heads.indexOf(select.dataset.column), select.value]);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const text = words.length ? row.textContent.toLowerCase() : "";
    row.hidden = !words.every((word) => text.includes(word)) ||
      picks.some(([index, value]) => row.cells[index].textContent !== value);
  }
  const shown = rows.filter((row) => !row.hidden).length;
  const boxes = table.querySelectorAll("input.series");
  const drawn = [...boxes].filter((box) => box.checked).length;
  const most = boxes.length > MOST ? ` (at most ${MOST})` : "";
  tools.querySelector(".count").textContent =
    `${shown} of ${rows.length} rows${boxes.length ? `, ${drawn} drawn${most}` : ""}`;
}

for (const tools of document.querySelectorAll(".tools[data-table]")) {
  tools.addEventListener("input", (event) => event.target.matches(".series") || filter(tools));
  filter(tools);
}

/* What is folded has no width to be drawn in. */
const places = [...document.querySelectorAll(".chart")];
const drawVisible = () => Promise.all(
  places.filter((p) => p.clientWidth && views.get(p)?.width !== p.clientWidth).map(draw),
);
const choosers = [...document.querySelectorAll("section:has(.series, .chooser)")];
Promise.all(choosers.map(letChoose)).then(drawVisible)
  .then(() => document.documentElement.classList.add("ready"));
document.addEventListener("toggle", drawVisible, true);

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawVisible, 200);
});
