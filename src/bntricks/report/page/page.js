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
  if (spec.facet) {
    spec.columns = Math.max(1, Math.floor(width / (spec.spec.width + room.beside)));
  } else if (spec.concat) {
    spec.columns = width < 900 ? 1 : 2;
    for (const panel of spec.concat) panel.width = width / spec.columns - 25;
  } else {
    spec.width = "container";
  }
  const ends = placeNames(spec, room, width);
  const hidden = spec.params?.find((param) => param.name === "hidden");
  if (hidden) hidden.value = hiddenIn(place);
  views.get(place)?.view.finalize();
  const drawn = await vegaEmbed(place, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
    config: style(width, room, !ends), tooltip: { disableDefaultStyle: true },
  });
  views.set(place, { view: drawn.view, width });
}

function hiddenIn(place) {
  const boxes = place.closest("section").querySelectorAll("fieldset input");
  return [...boxes].filter((box) => !box.checked).map((box) => box.value);
}

for (const fieldset of document.querySelectorAll("fieldset")) {
  fieldset.addEventListener("change", () => {
    for (const place of fieldset.closest("section").querySelectorAll(".chart")) {
      views.get(place)?.view.signal("hidden", hiddenIn(place)).runAsync();
    }
  });
}

function key(cell) {
  if (cell.dataset.number !== undefined) return Number(cell.dataset.number);
  return cell.textContent.trim();
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
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(key(a.cells[index]), key(b.cells[index]), sign));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("main table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    head.firstChild.addEventListener("click", () => sort(table, index));
  });
}

function filter(tools) {
  const words = tools.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const select = tools.querySelector("select");
  const rows = [...document.getElementById(tools.dataset.table).tBodies[0].rows];
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const chosen = row.cells[select.dataset.column].textContent;
    row.hidden =
      !words.every((word) => text.includes(word)) ||
      (select.value !== "" && select.value !== chosen);
  }
  const shown = rows.filter((row) => !row.hidden).length;
  tools.querySelector(".count").textContent = `${shown} of ${rows.length} rows`;
}

for (const tools of document.querySelectorAll(".tools")) {
  tools.addEventListener("input", () => filter(tools));
  filter(tools);
}

/* What is folded has no width to be drawn in. */
const places = [...document.querySelectorAll(".chart")];
const drawVisible = () => Promise.all(
  places.filter((p) => p.clientWidth && views.get(p)?.width !== p.clientWidth).map(draw),
);
drawVisible().then(() => document.documentElement.classList.add("ready"));
document.addEventListener("toggle", drawVisible, true);

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(drawVisible, 200);
});
