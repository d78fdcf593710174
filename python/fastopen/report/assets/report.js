// Draws the figures of the report, and the loads that the reader chooses. Everything it needs is in the page.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // In pixels: a page narrower than this has one panel a row; between panels; kept free of rounding; the least and most for marks.
  const NARROW = 640;
  const SPACING = 24;
  const SPARE = 6;
  const MARKS_LEAST = 160;
  const MARKS_MOST = 760;
  document.documentElement.classList.add("scripts");

  // Columns with numbered texts, as embedding.py packs them, back to rows.
  function rows(columns) {
    const count = columns.length ? columns[0].values.length : 0;
    return Array.from({ length: count }, (_, at) =>
      Object.fromEntries(
        columns.map((one) => [one.name, one.levels ? one.levels[one.values[at]] : one.values[at]])));
  }

  function viewsOf(spec) {
    return spec.concat ?? [spec.spec ?? spec];
  }

  // Panels share the width of the page; where it is narrow they stand below each other. `taken` is what axes
  // and spacing took of the width of a row when the figure was drawn as it is specified.
  function fitted(spec, width, taken) {
    const copy = structuredClone(spec);
    const columns = copy.columns ?? 1;
    const fitting = width < NARROW ? 1 : columns;
    const around = fitting === columns ? taken : taken / columns + SPACING / 2;
    if (copy.columns) copy.columns = fitting;
    if (width < NARROW) copy.config.legend.columns = 2;
    for (const view of viewsOf(copy)) {
      if (typeof view.width !== "number") continue;
      view.width = Math.max(MARKS_LEAST, Math.min(MARKS_MOST, (width - around) / fitting));
    }
    return copy;
  }

  function widthOf(place) {
    return place.querySelector("svg").viewBox.baseVal.width;
  }

  // What stands around the marks in a row of the drawing that is there.
  function around(place, spec) {
    const inRow = Math.min(spec.columns ?? 1, spec.concat?.length ?? Infinity);
    const [view] = viewsOf(spec);
    return widthOf(place) - inRow * view.width;
  }

  async function draw(place, packed) {
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, logLevel: 1,
      tooltip: { theme: dark.matches ? "dark" : "light" },
    };
    const values = rows(packed.columns);
    const embed = (spec) => vegaEmbed(place, { ...spec, data: { values } }, options);
    if (packed.around === undefined) {
      // The overview was drawn as it is specified when the file was written.
      if (place.dataset.load !== undefined) await embed(packed.spec);
      packed.around = around(place, packed.spec);
    }
    const room = place.closest("figure").clientWidth;
    let drawn = await embed(fitted(packed.spec, room, packed.around));
    // The last label of an axis may stick out by more or less than it did.
    const excess = widthOf(place) - room;
    if (excess > 0) drawn = await embed(fitted(packed.spec, room - excess - SPARE, packed.around));
    place.dataset.drawn = packed.spec.description;
    return drawn;
  }

  function drawOverview() {
    return [...document.querySelectorAll("[data-figure]")].map(async (place) => {
      const { view } = await draw(place, data.figures[place.dataset.figure]);
      view.addEventListener("click", (event, item) => follow(item?.datum));
      place.classList.toggle("clicks", data.figures[place.dataset.figure].columns.some((one) => one.name === "place"));
    });
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

  // From a mark of a page and network to its loads.
  function follow(datum) {
    const at = loads.findIndex((one) => one.page === datum?.page && one.place === datum?.place);
    if (at < 0) return;
    choose(at);
    document.getElementById("loads").scrollIntoView();
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
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
  Promise.all(drawing).then(() => document.documentElement.classList.add("drawn"));
})();
