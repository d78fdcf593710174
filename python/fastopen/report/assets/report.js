// Draws the figures of the report, and of the loads that the reader chooses. The page contains all data.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // In pixels: the width below which panels stack, the gap between panels, the room for rounding errors, and the
  // least and greatest width of a panel's marks.
  const NARROW = 640;
  const SPACING = 24;
  const SPARE = 6;
  const MARKS_LEAST = 144;
  const MARKS_MOST = 760;
  // The longest line of a panel's title on a narrow page, in letters: usually, and if names are shortened too.
  const TITLE_MOST = 36;
  const TITLE_LEAST = 22;
  document.documentElement.classList.add("scripts");

  // Converts columns to rows. In columns from embedding.py, texts are indexes into a list of levels.
  function rows(columns) {
    const count = columns.length ? columns[0].values.length : 0;
    return Array.from({ length: count }, (_, at) =>
      Object.fromEntries(
        columns.map((one) => [one.name, one.levels ? one.levels[one.values[at]] : one.values[at]])));
  }

  function viewsOf(spec) {
    return spec.concat ?? spec.vconcat ?? [spec.spec ?? spec];
  }

  // Returns the number of panels side by side in the figure or, if its views are stacked, in each view.
  function columnsOf(spec) {
    return spec.columns ?? viewsOf(spec)[0].encoding?.facet?.columns ?? 1;
  }

  function* partsOf(spec) {
    yield spec;
    for (const part of [...viewsOf(spec), ...(spec.layer ?? [])]) if (part !== spec) yield* partsOf(part);
  }

  // Returns an expression that breaks a title of more than `most` letters after a comma or colon.
  function titled(most) {
    const broken = `split(replace(datum.label, regexp('^(.{1,${most}}[,:]) '), '$1\\n'), '\\n')`;
    return `length(datum.label) > ${most} ? ${broken} : datum.label`;
  }

  // Fits a figure to a narrow page: titles in two lines and, if `names` is given, names of requests in at most
  // that many pixels and legends in one column.
  function narrow(spec, names) {
    spec.config.legend.columns = names ? 1 : 2;
    for (const part of partsOf(spec)) {
      for (const facet of [part.facet, part.encoding?.facet]) {
        if (facet) facet.header = { ...facet.header, labelExpr: titled(names ? TITLE_LEAST : TITLE_MOST) };
      }
      if (part.encoding?.facet) part.encoding.facet.columns = 1;
      if (part.encoding?.y?.axis && names) part.encoding.y.axis.labelLimit = names;
    }
  }

  // Divides the width of the page among panels, or stacks them on a narrow page. `taken`: the width of axes and
  // spacing in a row of the figure as specified. `names`: as in narrow().
  function fitted(spec, width, taken, names) {
    const copy = structuredClone(spec);
    const columns = columnsOf(copy);
    const fitting = width < NARROW ? 1 : columns;
    const around = fitting === columns ? taken : taken / columns + SPACING / 2;
    if (copy.columns) copy.columns = fitting;
    if (width < NARROW) narrow(copy, names);
    for (const view of viewsOf(copy)) {
      if (typeof view.width !== "number") continue;
      view.width = Math.max(MARKS_LEAST, Math.min(MARKS_MOST, (width - around) / fitting));
    }
    return copy;
  }

  function widthOf(place) {
    return place.querySelector("svg").viewBox.baseVal.width;
  }

  // Returns the width of everything around the marks in a row of the present drawing.
  function around(place, spec) {
    const inRow = Math.min(columnsOf(spec), spec.concat?.length ?? Infinity);
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
      // The file already contains the overview's figures, drawn as specified.
      if (place.dataset.load !== undefined) await embed(packed.spec);
      packed.around = around(place, packed.spec);
    }
    const room = place.closest("figure").clientWidth;
    let drawn = await embed(fitted(packed.spec, room, packed.around));
    // The last label of an axis may protrude by a different width now.
    const excess = widthOf(place) - room;
    if (excess > 0) drawn = await embed(fitted(packed.spec, room - excess - SPARE, packed.around));
    // If marks cannot be narrower, shorten names: the tooltip of a mark shows the whole name.
    const names = room - MARKS_LEAST - 3 * SPACING;
    if (widthOf(place) > room) drawn = await embed(fitted(packed.spec, room - excess - SPARE, packed.around, names));
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

  // Shows the loads of a clicked mark's page and network.
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
  // Print the contents of closed sections too.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));
  Promise.all(drawing).then(() => document.documentElement.classList.add("drawn"));
})();
