"use strict";

/* The charts are drawn anew for other methods or another width; the slider only changes their data. */
for (const root of document.querySelectorAll(".explorer")) explore(root);
if (window.top !== window.self) document.documentElement.classList.add("embedded");

function explore(root) {
  const read = (name) => JSON.parse(document.getElementById(name).textContent);
  const { scenes, start, parts, names } = read(root.dataset.scenes);
  const [picker, ...pickers] = root.querySelectorAll("select");
  const slider = root.querySelector("input");
  const places = [...root.querySelectorAll(".live")];
  const specs = new Map(places.map((place) => [place, read(place.dataset.spec)]));
  const drawn = new Map();
  let scene;

  function pair() {
    return pickers.map((select) => scene.lines[select.value]);
  }

  function at(line, share) {
    const next = line.points.findIndex((point) => point.share >= share);
    const above = next < 0 ? line.points.length - 1 : next;
    const [low, high] = [line.points[Math.max(0, above - 1)], line.points[above]];
    const part = high.share > low.share ? (share - low.share) / (high.share - low.share) : 1;
    const mix = (a, b) => a + part * (b - a);
    const numbers = ["old", "newest", "acc"].map((key) => [key, mix(low[key], high[key])]);
    const tasks = low.tasks && high.tasks && low.tasks.map((value, i) => mix(value, high.tasks[i]));
    return { ...Object.fromEntries(numbers), tasks: tasks ?? [], share };
  }

  function rows() {
    const lines = [...new Set(pair())];
    const here = lines.map((line) => [line.name, at(line, slider.value / 100)]);
    return {
      now: here.flatMap(([method, a]) => [
        { method, part: parts[0], acc: a.old }, { method, part: parts[1], acc: a.newest },
      ]),
      curve: lines.flatMap(({ name, points }) =>
        points.map(({ share, acc }) => ({ method: name, share, acc }))),
      here: here.map(([method, { share, acc }]) => ({ method, share, acc })),
      tasks: here.flatMap(([method, a]) => a.tasks.map((acc, i) => ({ method, task: i + 1, acc }))),
    };
  }

  /* The scales of the spec are of the methods that the page opens with. */
  function ofPair(value) {
    if (Array.isArray(value)) return value.map(ofPair);
    if (value === null || typeof value !== "object") return value;
    if (String(value.domain) === String([...new Set(names)])) {
      const lines = [...new Set(pair())];
      const part = Array.isArray(value.range[0]) ? "dash" : "colour";
      return { ...value, domain: lines.map((l) => l.name), range: lines.map((l) => l[part]) };
    }
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, ofPair(each)]));
  }

  async function draw(place) {
    const data = rows();
    const empty = place.dataset.spec.endsWith("tasks") && data.tasks.length === 0;
    place.closest("figure").hidden = empty;
    if (empty) return;
    const spec = { ...ofPair(specs.get(place)), datasets: data, width: "container" };
    const width = place.clientWidth;
    drawn.get(place)?.view.finalize();
    const { view } = await vegaEmbed(place, spec, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
      config: style(width, { name: 150, beside: 65 }, true), tooltip: { disableDefaultStyle: true },
    });
    drawn.set(place, { view, width });
  }

  function say() {
    const share = slider.value / 100;
    const measured = pair().every(({ points }) =>
      points.some((point) => Math.abs(point.share - share) < 1e-9));
    const words = [...new Set(pair())].map((line) => {
      const { old, newest } = at(line, share);
      return `${line.name} recognises ${old.toFixed(0)}% of the old classes and ` +
        `${newest.toFixed(0)}% of the newest`;
    });
    const how = measured ? "measured" : "interpolated between the measured dots";
    const text = `At ${slider.value}% (${how}): ${words.join("; ")}.`;
    root.querySelector(".said").textContent = text;
    root.querySelector("output").textContent = `${slider.value}%`;
    slider.setAttribute("aria-valuetext", text);
  }

  function move() {
    say();
    const data = rows();
    for (const { view } of drawn.values()) {
      for (const [name, values] of Object.entries(data)) {
        try { view.data(name, values); } catch { /* another chart's */ }
      }
      view.runAsync();
    }
  }

  function jump(share, text) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => { slider.value = Math.round(100 * share); move(); });
    return button;
  }

  async function choose() {
    const own = [...new Set(pair())].filter((line) => line.own !== null);
    const jumps = own.map(({ own: share, name }) =>
      jump(share, `as ${name} trains: ${Math.round(100 * share)}%`));
    root.querySelector(".jumps").replaceChildren(...jumps);
    root.querySelector(".commands").textContent =
      [...new Set(pair().map((line) => line.command)), "bnt explore runs"].join("\n");
    slider.min = 100 * Math.max(...pair().map(({ points }) => points[0].share));
    slider.max = 100 * Math.min(...pair().map(({ points }) => points.at(-1).share));
    say();
    await Promise.all(places.map(draw));
  }

  function enter() {
    scene = scenes[picker.value];
    pickers.forEach((select, index) => {
      fill(select, scene.lines.map((line) => line.name));
      select.value = scene.pair[index];
    });
    return choose();
  }

  function fill(select, texts) {
    select.replaceChildren(...texts.map((text, index) => new Option(text, index)));
  }

  fill(picker, scenes.map((each) => each.title));
  slider.value = Math.round(100 * start);
  for (const part of root.querySelectorAll("[hidden]")) part.hidden = false;
  picker.parentElement.hidden = scenes.length === 1;
  picker.addEventListener("change", enter);
  for (const select of pickers) select.addEventListener("change", choose);
  slider.addEventListener("input", move);
  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      places.filter((p) => p.clientWidth && drawn.get(p)?.width !== p.clientWidth).forEach(draw);
    }, 200);
  });
  enter().then(() => root.classList.add("ready"));
}
