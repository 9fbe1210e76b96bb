"use strict";
/* The page has the heat map of the first layer, drawn, and the numbers of all layers and stages.
   To show another one, the first row of the drawn map is copied and filled with its numbers. */
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("map-data").textContent);
  const map = byId("map"), rows = byId("map-rows"), frame = byId("map-frame");
  const select = byId("map-select"), readout = byId("readout");
  const firstRow = rows.firstElementChild.cloneNode(true);

  const set = (element, attributes) => {
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  };
  const share = (thousandths) => (thousandths / 10).toFixed(1) + "%";

  const filledRow = (one, at) => {
    const row = firstRow.cloneNode(true), probabilities = one.probabilities[at];
    for (const part of row.querySelectorAll("[y]")) {
      set(part, {y: Number(part.getAttribute("y")) + at * data.row});
    }
    row.querySelectorAll("g").forEach((cell, column) => {
      const [title, box] = cell.children, probability = probabilities[column];
      const what = `epoch ${data.epochs[column]}, ${one.sizes[at]} ${one.unit}`;
      title.textContent = `${what}: ${share(probability)}`;
      set(box, {"fill-opacity": Math.round(Math.sqrt(1000 * probability)) / 1000});
    });
    const kept = at === one.kept ? " kept" : "", [size, last] = row.querySelectorAll("text");
    size.textContent = one.sizes[at];
    last.textContent = share(probabilities.at(-1)) + kept;
    for (const text of [size, last]) set(text, {class: "tick" + kept});
    return row;
  };

  const show = (index) => {
    const one = data.maps[index], bottom = data.top + one.sizes.length * data.row;
    rows.replaceChildren(...one.sizes.map((_, at) => filledRow(one, at)));
    set(frame, {y: data.top + Math.max(0, one.kept) * data.row,
      height: one.kept < 0 ? 0 : data.row});
    set(byId("map-axis"), {transform: `translate(0 ${bottom})`});
    set(map, {viewBox: `0 0 ${data.width} ${bottom + 40}`});
    byId("map-title").textContent = `${one.name}: probability of each size`;
    byId("map-unit").textContent = one.unit;
    byId("map-name").textContent = one.name;
    for (const id of ["map-text", "map-note"]) byId(id).textContent = one.note;
    readout.textContent = "Point at a cell, or tap it, to read it.";
  };

  // a link to the page may name what it should show: report.html#map=stages.1
  const showNamed = () => {
    const name = new URLSearchParams(location.hash.slice(1)).get("map");
    select.value = Math.max(0, data.maps.findIndex((one) => one.name === name));
    show(select.value);
  };
  select.addEventListener("change", () => {
    const name = encodeURIComponent(data.maps[select.value].name);
    history.replaceState(null, "", "#map=" + name);
    show(select.value);
  });
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#map=")) showNamed();
  });
  for (const kind of ["pointerover", "click"]) map.addEventListener(kind, (event) => {
    const cell = event.target.closest(".cell");
    if (cell) readout.textContent = cell.parentElement.textContent;
  });
  byId("map-choice").hidden = false;
  showNamed();
})();
