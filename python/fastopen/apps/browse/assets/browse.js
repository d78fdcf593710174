// Fetches the slow parts of a page when they become visible, and steps through lists with keys.
"use strict";
(() => {
  document.documentElement.classList.add("scripts");

  // Fills a place with the HTML of a part, then fills the parts within it. Scripts in this HTML do not run.
  async function fill(place) {
    place.dataset.asked = "";
    let answer;
    try {
      answer = await fetch(place.dataset.part, { headers: { "X-Fastopen-Part": "1" } });
    } catch {
      place.textContent = "fastopen browse has ended.";
      return;
    }
    place.innerHTML = await answer.text();
    place.classList.add("filled");
    if (place.dataset.every) {
      if (place.querySelector("[data-ended]")) location.reload();
      else if (answer.ok) setTimeout(() => fill(place), Number(place.dataset.every));
    }
    fillOpen(place);
  }

  // Fills the parts that were not requested yet, except those in closed <details> elements.
  function fillOpen(within) {
    const wanted = [...within.querySelectorAll("[data-part]:not([data-asked])")]
      .filter((place) => !place.closest("details:not([open])"));
    return Promise.all(wanted.map(fill));
  }

  document.addEventListener("toggle", (event) => { if (event.target.open) fillOpen(event.target); }, true);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea")) return;
    const steps = { p: 'a[rel="prev"]', n: 'a[rel="next"]' };
    if (event.key in steps) document.querySelector(steps[event.key])?.click();
    if (event.key === "/" && document.getElementById("search")) {
      event.preventDefault();
      document.getElementById("search").focus();
    }
  });
  fillOpen(document).then(() => document.documentElement.classList.add("filled"));
})();
