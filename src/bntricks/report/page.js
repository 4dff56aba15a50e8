"use strict";

/* Charts take colours from the page by currentColor, so that dark mode and print need no redraw. */
const INK = "currentColor";
const views = new Map();

function style(width) {
  const narrow = width < 600;
  return {
    background: "transparent",
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    axis: {
      domainColor: INK, tickColor: INK, labelColor: INK, titleColor: INK, gridColor: INK,
      gridOpacity: 0.15, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
    },
    axisY: { labelLimit: narrow ? 130 : 340 },
    header: { labelColor: INK, labelFontSize: 13, labelLimit: 220 },
    legend: {
      orient: "bottom", columns: Math.max(1, Math.floor(width / 150)), labelColor: INK,
      titleColor: INK, labelFontSize: 12, labelLimit: narrow ? 150 : 300, titleLimit: 300,
    },
    rule: { color: INK },
    text: { color: INK },
    view: { stroke: null },
  };
}

async function draw(place) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  const width = place.clientWidth;
  if (spec.facet) {
    spec.columns = Math.max(1, Math.floor((width - 25) / (spec.spec.width + 20)));
  } else {
    spec.width = "container";
  }
  const hidden = spec.params?.find((param) => param.name === "hidden");
  if (hidden) hidden.value = hiddenIn(place);
  views.get(place)?.view.finalize();
  const drawn = await vegaEmbed(place, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
    config: style(width), tooltip: { disableDefaultStyle: true },
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

for (const table of document.querySelectorAll("main table")) {
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

const places = [...document.querySelectorAll(".chart")];
Promise.all(places.map(draw)).then(() => document.documentElement.classList.add("ready"));

let waiting;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    places.filter((p) => views.get(p)?.width !== p.clientWidth).forEach(draw);
  }, 200);
});
