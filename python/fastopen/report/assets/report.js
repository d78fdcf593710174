// Draws the figures of the report, and the loads that the reader chooses. Everything it needs is in the page.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // In pixels: a page narrower than this has one panel a row; what axes take of it; the least for the marks.
  const NARROW = 700;
  const LABELS = 110;
  const MARKS = 160;
  document.documentElement.classList.add("scripts");

  // Columns with numbered texts, as embedding.py packs them, back to rows.
  function rows(columns) {
    const count = columns.length ? columns[0].values.length : 0;
    return Array.from({ length: count }, (_, at) =>
      Object.fromEntries(
        columns.map((one) => [one.name, one.levels ? one.levels[one.values[at]] : one.values[at]])));
  }

  // Where the page is narrow, panels stand below each other and are no wider than it.
  function fitted(spec, width) {
    const copy = structuredClone(spec);
    if (width >= NARROW) return copy;
    if (copy.columns) copy.columns = 1;
    copy.config.legend.columns = 2;
    for (const view of copy.concat ?? [copy.spec ?? copy]) {
      if (typeof view.width === "number") view.width = Math.min(view.width, Math.max(MARKS, width - LABELS));
    }
    return copy;
  }

  function draw(place, packed) {
    const spec = fitted(packed.spec, place.closest("figure").clientWidth);
    spec.data = { values: rows(packed.columns) };
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, logLevel: 1,
      tooltip: { theme: dark.matches ? "dark" : "light" },
    };
    return vegaEmbed(place, spec, options).then(() => { place.dataset.drawn = packed.spec.description; });
  }

  function drawOverview() {
    return [...document.querySelectorAll("[data-figure]")].map(
      (place) => draw(place, data.figures[place.dataset.figure]));
  }

  const pages = document.getElementById("choose-page");
  const places = document.getElementById("choose-place");
  const titles = document.querySelectorAll("[data-load]");
  const loads = data.loads;

  function options(select, texts) {
    select.replaceChildren(...texts.map((text) => new Option(text, text)));
  }

  function current() {
    return loads.findIndex((one) => one.page === pages.value && one.place === places.value);
  }

  function show(at) {
    const one = loads[at];
    document.getElementById("chosen").textContent = `${one.page}, ${one.place}`;
    return [...titles].map((place) => {
      const packed = one.figures[Number(place.dataset.load)];
      place.closest("figure").querySelector(".what").textContent = `${packed.title}.`;
      return draw(place, packed);
    });
  }

  function choose(at) {
    const one = loads[(at + loads.length) % loads.length];
    pages.value = one.page;
    options(places, loads.filter((other) => other.page === one.page).map((other) => other.place));
    places.value = one.place;
    return show(current());
  }

  const drawing = drawOverview();
  if (loads.length) {
    options(pages, [...new Set(loads.map((one) => one.page))]);
    pages.addEventListener("change", () => {
      const kept = places.value;
      const same = loads.findIndex((one) => one.page === pages.value && one.place === kept);
      choose(same >= 0 ? same : loads.findIndex((one) => one.page === pages.value));
    });
    places.addEventListener("change", () => show(current()));
    document.getElementById("previous").addEventListener("click", () => choose(current() - 1));
    document.getElementById("next").addEventListener("click", () => choose(current() + 1));
    document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
    drawing.push(...choose(0));
  }

  let width = document.body.clientWidth;
  window.addEventListener("resize", () => {
    const crossed = (document.body.clientWidth < NARROW) !== (width < NARROW);
    width = document.body.clientWidth;
    if (!crossed) return;
    drawOverview();
    if (loads.length) show(current());
  });
  // What is folded away on a screen is read on paper.
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
  });
  Promise.all(drawing).then(() => document.documentElement.classList.add("drawn"));
})();
