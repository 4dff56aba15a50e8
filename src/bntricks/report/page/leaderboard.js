"use strict";

/* Rows of all runs: filters, dots, a comparison of two rows, and the run that a dot leads to. */
const PAGE = 50;
const SVG = "http://www.w3.org/2000/svg";

lead(document.querySelector(".leaderboard"));

async function lead(root) {
  const data = await unpack(root.dataset.board);
  const runs = new Map();
  for (const row of data.rows) for (const run of row.runs) runs.set(run.id, [row, run]);
  const tools = root.querySelector(".board-tools");
  const [head, body] = [root.querySelector("thead"), root.querySelector("tbody")];
  const facets = data.columns.map((name, index) => ({ name, index, select: choice(name, index) }));
  const several = facets.filter(({ index }) => new Set(data.rows.map((r) => r.values[index])).size > 1);
  const search = make("input", { type: "search", placeholder: "any text" });
  const metric = make("select", { ariaLabel: "Sorted by" }, data.metrics.map((name, i) => new Option(name, i)));
  const count = make("span", { className: "count", role: "status" });
  let picked = [];
  let limit = PAGE;

  function choice(name, index) {
    const values = [...new Set(data.rows.map((row) => row.values[index]))];
    values.sort((a, b) => String(a).localeCompare(String(b), undefined, { numeric: true }));
    return make("select", { ariaLabel: name }, [new Option("all", ""), ...values.map((v) => new Option(v, `=${v}`))]);
  }

  tools.append(
    make("label", {}, ["Rows with ", search]),
    ...facets.map(({ name, select }) => make("label", {}, [`${name} `, select])),
    make("label", {}, ["Sorted by ", metric]), count,
  );

  const numbers = (row) => row.runs.map((run) => run.numbers[metric.value])
    .filter((value) => value !== null);

  function visible() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = data.rows.filter((row) =>
      facets.every(({ index, select }) => !select.value || select.value === `=${row.values[index]}`) &&
      words.every((word) => `${row.label} ${row.values.join(" ")}`.toLowerCase().includes(word)));
    const best = new Map(rows.map((row) => [row, mean(numbers(row)) ?? -Infinity]));
    return rows.sort((a, b) => best.get(b) - best.get(a));
  }

  function draw() {
    const rows = visible();
    const all = rows.flatMap(numbers);
    const low = all.length ? 10 * Math.floor(Math.min(...ends(all)) / 10) : 0;
    const high = Math.max(low + 10, all.length ? 10 * Math.ceil(Math.max(...ends(all)) / 10) : 100);
    const name = data.metrics[metric.value];
    const titles = ["Compare", ...several.map((facet) => facet.name), name, `${low} to ${high}`, "Seeds"];
    head.replaceChildren(make("tr", {}, titles.map((text) => make("th", { scope: "col" }, [text]))));
    body.replaceChildren(...rows.slice(0, limit).map((row) => line(row, titles, low, high)));
    const more = make("button", { type: "button" }, [`Show ${Math.min(PAGE, rows.length - limit)} more`]);
    more.addEventListener("click", () => { limit += PAGE; draw(); });
    root.querySelector(".jumps").replaceChildren(...(rows.length > limit ? [more] : []));
    const shown = Math.min(limit, rows.length);
    count.textContent = `${shown} of ${rows.length} rows shown, of ${data.rows.length} in all`;
  }

  function line(row, titles, low, high) {
    const own = numbers(row);
    const box = make("input", { type: "checkbox", checked: picked.includes(row) });
    box.ariaLabel = `compare ${row.label}, ${row.values[1]}`;
    box.addEventListener("change", () => pick(row, box.checked));
    const side = picked.includes(row) ? ` ${"AB"[picked.indexOf(row)]}` : "";
    const cells = [
      [make("label", {}, [box, make("strong", {}, [side])])],
      ...several.map(({ index }) => [index === 0 ? swatch(row) : "", String(row.values[index])]),
      [spread(own)], [dots(row, low, high)], [String(own.length)],
    ];
    return make("tr", {}, cells.map((content, i) => {
      const cell = make("td", { className: i === cells.length - 3 ? "number" : "" }, content);
      cell.dataset.head = i === cells.length - 2 ? "" : titles[i];
      return cell;
    }));
  }

  function swatch(row) {
    const mark = make("i", { className: "swatch" });
    mark.style.background = row.colour;
    return mark;
  }

  /* One stop of the keyboard for a row; the arrow keys go from dot to dot. */
  function dots(row, low, high) {
    const place = (value) => 8 + (184 * (value - low)) / (high - low);
    const parts = [shape("line", { x1: 8, x2: 192, y1: 13, y2: 13, class: "rail" })];
    const own = row.runs.filter((run) => run.numbers[metric.value] !== null);
    const links = own.map((run, index) => {
      const value = run.numbers[metric.value];
      const text = `seed ${run.seed}: ${data.metrics[metric.value]} ${value.toFixed(2)}`;
      const dot = { cx: place(value), cy: 9 + 4 * (index % 3), r: 5, fill: row.colour };
      const link = shape("a", { href: `#run-${run.id}`, tabindex: index ? -1 : 0, "aria-label": text });
      link.append(shape("circle", dot), shape("title", {}, text));
      return link;
    });
    const picture = shape("svg", { viewBox: "0 0 200 26", class: "dots", role: "group" });
    picture.setAttribute("aria-label", `runs of ${row.label}`);
    picture.append(...parts, ...links);
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = links[links.indexOf(document.activeElement) + step];
      if (!next) return;
      event.preventDefault();
      links.forEach((link) => link.setAttribute("tabindex", link === next ? 0 : -1));
      next.focus();
    });
    return picture;
  }

  function pick(row, on) {
    picked = on ? [...picked, row].slice(-2) : picked.filter((other) => other !== row);
    const focused = document.activeElement.ariaLabel;
    draw();
    [...body.querySelectorAll("input")].find((box) => box.ariaLabel === focused)?.focus();
    compare();
  }

  function compare() {
    const place = document.querySelector(".pair");
    const [a, b] = picked;
    if (!b) {
      const text = a ? "Tick another row to compare it with." : "Tick two rows of the leaderboard.";
      place.replaceChildren(make("p", {}, [text]));
      return;
    }
    const lines = data.metrics.map((name, index) => {
      const pairs = a.runs.flatMap((run) => {
        const other = b.runs.find((each) => each.seed === run.seed);
        const values = other ? [run.numbers[index], other.numbers[index]] : [null];
        return values.includes(null) ? [] : [{ run, other, gain: values[0] - values[1] }];
      });
      const found = estimate(pairs.map((pair) => pair.gain));
      const mixed = pairs.some(({ run, other }) => run.by !== other.by) ? " †" : "";
      const side = (row) => spread(row.runs.map((run) => run.numbers[index]).filter((v) => v !== null));
      return [name, side(a), side(b), fixed(found.mean), found.low === null ? "" :
        `${fixed(found.low)} to ${fixed(found.high)}`, `${found.n}${mixed}`, verdict(found)];
    });
    const heads = ["Metric", "A", "B", "A − B", "95% interval", "Seeds", "Verdict"];
    const differing = data.columns.flatMap((name, index) =>
      (a.values[index] === b.values[index] ? [] : [`${name} (${a.values[index]}, ${b.values[index]})`]));
    for (const name of new Set([...Object.keys(a.options), ...Object.keys(b.options)])) {
      const [one, two] = [a, b].map((row) => row.options[name] ?? data.defaults[name] ?? "none");
      const known = data.columns.includes(name);
      if (one !== two && !known) differing.push(`${name} (${one}, ${two})`);
    }
    const notes = [`They differ in ${differing.join("; ") || "nothing"}.`];
    if (a.data !== b.data) notes.push("They learned different images, so they do not compare.");
    if (lines.some((line) => line[5].endsWith("†"))) {
      notes.push("† Some pairs were computed by different machines, code or versions, so they also " +
        "differ by rounding.");
    }
    place.replaceChildren(
      ...[a, b].map((row, i) => make("p", {}, [
        make("strong", {}, [`${"AB"[i]}: `]), swatch(row), ` ${row.label}, ${row.values[1]}`])),
      make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Differences" },
        [tableOf(heads, lines, "differences cards", "Differences of A and B")]),
      ...notes.map((text) => make("p", {}, [text])),
    );
  }

  function estimate(gains) {
    const [n, centre] = [gains.length, mean(gains)];
    if (n < 2) return { mean: centre, low: null, high: null, n };
    const half = (data.t[n] * deviation(gains)) / Math.sqrt(n);
    return { mean: centre, low: centre - half, high: centre + half, n };
  }

  function verdict({ low, high, n }) {
    const { fewest, confirmed } = data.judged;
    if (n === 0) return "not judged: no seed in common";
    if (n < fewest) return `not judged: ${n} ${n === 1 ? "seed" : "seeds"}`;
    const [from, to] = [Number(fixed(low)), Number(fixed(high))];
    if (from === 0 && to === 0) return "no difference";
    if (from <= 0 && to >= 0) return "undecided";
    const side = from > 0 ? "A is above B" : "A is below B";
    return n < confirmed ? `suggested: ${side}` : side;
  }

  const fixed = (value) => (value === null ? "–" : value.toFixed(data.judged.digits));

  function show() {
    const found = runs.get(location.hash.replace(/^#run-/, ""));
    if (!location.hash.startsWith("#run-") || !found) return;
    const [row, run] = found;
    const title = `${row.label} on ${row.values[1]}, seed ${run.seed}`;
    const heading = make("h3", { tabIndex: -1 }, [title]);
    const facts = Object.entries({
      ...Object.fromEntries(data.metrics.map((name, i) => [name, fixed(run.numbers[i])])),
      Stream: row.values[1], ...row.options,
    });
    const said = [run.where, run.as && `read off a run of ${run.as}`, data.computed[run.by], row.caveat];
    const parts = [
      heading,
      make("p", { className: "quiet" }, [said.filter(Boolean).join("; ")]),
      make("pre", {}, [row.command.replace(`--seed ${row.first}`, `--seed ${run.seed}`)]),
      listing(facts),
      make("details", {}, [make("summary", {}, ["Options at their defaults"]),
        listing(Object.entries(data.defaults).filter(([name]) => !(name in row.options)))]),
      make("h4", {}, ["ACC after each task, and each task over time"]), curves(run, row.colour),
      make("h4", {}, ["Accuracy on each task (across) after each task learned (down), %"]),
      heat(run.r.map((line) => line ?? []), run.r.map((_, i) => i + 1), "after", "Accuracy matrix"),
    ];
    if (run.confusion) {
      const names = data.classes[run.classes];
      const lines = names.map((_, i) => run.confusion.slice(i * names.length, (i + 1) * names.length));
      parts.push(make("h4", {}, ["Confusion: what each class (down) was taken for (across), %"]),
        heat(lines.map((line) => line.map((v) => v / 10)), names, "true", "Confusion"));
    }
    const back = make("a", { href: "#rows" }, ["Back to the rows"]);
    document.querySelector(".run").replaceChildren(...parts, make("p", {}, [back]));
    document.getElementById("one-run").scrollIntoView();
    heading.focus({ preventScroll: true });
  }

  tools.addEventListener("input", () => { limit = PAGE; draw(); });
  window.addEventListener("hashchange", show);
  draw();
  compare();
  show();
  root.classList.add("ready");
}

function make(tag, properties = {}, children = []) {
  const element = Object.assign(document.createElement(tag), properties);
  if (properties.role) element.setAttribute("role", properties.role);
  element.append(...children);
  return element;
}

function shape(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

function mean(values) {
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
}

function deviation(values) {
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, v) => sum + (v - centre) ** 2, 0) / (values.length - 1));
}

function spread(values) {
  if (!values.length) return "–";
  const text = mean(values).toFixed(2);
  return values.length > 1 ? `${text} ± ${deviation(values).toFixed(2)}` : text;
}

/* Not Math.min(...values): ten thousand arguments may be too many. */
function ends(values) {
  return values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
}

function listing(pairs) {
  return make("dl", {}, pairs.map(([name, text]) =>
    make("div", {}, [make("dt", {}, [name]), make("dd", {}, [text])])));
}

function tableOf(heads, lines, kind, caption) {
  const cells = (line, tag) => make("tr", {}, line.map((text, i) => {
    const cell = make(tag, tag === "th" ? { scope: "col" } : {}, [String(text)]);
    if (tag === "td") cell.dataset.head = heads[i];
    return cell;
  }));
  return make("table", { className: kind }, [make("caption", {}, [caption]),
    make("thead", {}, [cells(heads, "th")]), make("tbody", {}, lines.map((line) => cells(line, "td")))]);
}

/* The ink stays readable: no cell is covered by more than half. */
function heat(lines, names, corner, caption) {
  const table = tableOf([corner, ...names], lines.map((line, i) => [names[i], ...line.map((v) =>
    v.toFixed(v === Math.round(v) ? 0 : 1))]), "heat", caption);
  [...table.tBodies[0].rows].forEach((row, i) => [...row.cells].slice(1).forEach((cell, j) => {
    cell.style.background = `rgb(45 125 210 / ${(0.55 * lines[i][j]) / 100})`;
  }));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: caption }, [table]);
}

function curves(run, colour) {
  const tasks = run.r.length;
  const x = (task) => 34 + (430 * task) / Math.max(1, tasks - 1);
  const y = (value) => 172 - 1.6 * value;
  const path = (points) => points.map(([i, v], n) => `${n ? "L" : "M"}${x(i)} ${y(v)}`).join("");
  const picture = shape("svg", { viewBox: "0 0 500 200", class: "curves", role: "img" });
  const accs = run.r.map((line, i) => (line === null ? null : [i, mean(line)])).filter(Boolean);
  const said = accs.map(([i, v]) => `${v.toFixed(1)}% after task ${i + 1}`).join(", ");
  picture.setAttribute("aria-label", `ACC: ${said}`);
  for (const value of [0, 25, 50, 75, 100]) {
    picture.append(shape("line", { x1: 34, x2: 464, y1: y(value), y2: y(value), class: "rail" }),
      shape("text", { x: 28, y: y(value) + 4, "text-anchor": "end" }, value));
  }
  for (let task = 0; task < tasks; task += 1) {
    const points = run.r.flatMap((line, i) => (line && line.length > task ? [[i, line[task]]] : []));
    picture.append(shape("path", { d: path(points), class: "task" }),
      shape("text", { x: x(task), y: 190, "text-anchor": "middle" }, task + 1));
  }
  picture.append(shape("path", { d: path(accs), stroke: colour, class: "acc" }),
    ...accs.map(([i, v]) => shape("circle", { cx: x(i), cy: y(v), r: 4, fill: colour })));
  return picture;
}
