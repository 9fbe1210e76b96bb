"""The script of the page: it draws the distributions of the layer or stage that is chosen."""

__all__ = ["SCRIPT"]

# It builds elements and sets their text; names from the folder are never taken for markup.
SCRIPT = """
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const byId = (id) => document.getElementById(id);
  const select = byId("map-select"), readout = byId("readout");

  const element = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const text = (kind, x, y, anchor, words) =>
    element("text", {class: kind, x, y, "text-anchor": anchor}, words);

  const cell = (one, at, column) => {
    const chance = one.chances[at][column];
    const group = element("g", {});
    const share = (chance / 10).toFixed(1) + "%";
    const words = `epoch ${data.epochs[column]}, ${one.sizes[at]} ${one.unit}: ${share}`;
    group.append(element("title", {}, words), element("rect", {
      class: "cell", x: data.x[column], y: data.top + at * one.row, width: data.cell,
      height: one.row, "fill-opacity": Math.round(Math.sqrt(1000 * chance)) / 1000,
    }));
    return group;
  };

  const draw = (index) => {
    const one = data.maps[index], {left, right, top} = data;
    const bottom = top + one.row * one.sizes.length;
    const parts = [
      element("title", {id: "map-title"}, `${one.name}: probability of each size`),
      element("desc", {id: "map-text"}, one.note),
      text("tick", 0, top - 8, "start", one.unit),
      text("tick", right + 8, top - 8, "start", "at the end"),
    ];
    one.sizes.forEach((size, at) => {
      const kept = at === one.kept, kind = kept ? "tick kept" : "tick";
      const middle = top + at * one.row + Math.floor(one.row / 2) + 4;
      data.x.forEach((_, column) => parts.push(cell(one, at, column)));
      const last = (one.chances[at].at(-1) / 10).toFixed(1) + "%" + (kept ? " kept" : "");
      parts.push(text(kind, left - 8, middle, "end", size));
      parts.push(text(kind, right + 8, middle, "start", last));
    });
    if (one.kept >= 0) parts.push(element("rect", {
      class: "kept", x: left, y: top + one.kept * one.row, width: right - left, height: one.row,
    }));
    for (const [x, epoch] of data.ticks) parts.push(text("tick", x, bottom + 16, "middle", epoch));
    parts.push(text("tick", Math.floor((left + right) / 2), bottom + 34, "middle", "epoch"));
    const map = byId("map");
    map.setAttribute("viewBox", `0 0 ${data.width} ${bottom + 40}`);
    map.replaceChildren(...parts);
    byId("map-name").textContent = one.name;
    byId("map-note").textContent = one.note;
    readout.textContent = "Point at a cell, or tap it, to read it.";
  };

  // a link to the page may name what it is to show: report.html#map=stages.1
  const named = () => {
    const wanted = new URLSearchParams(location.hash.slice(1)).get("map");
    return Math.max(0, data.maps.findIndex((one) => one.name === wanted));
  };
  const show = () => { select.value = named(); draw(select.value); };
  select.addEventListener("change", () => {
    const name = encodeURIComponent(data.maps[select.value].name);
    history.replaceState(null, "", "#map=" + name);
    draw(select.value);
  });
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#map=")) show();
  });
  for (const kind of ["pointerover", "click"]) byId("map").addEventListener(kind, (event) => {
    const title = event.target.closest("g")?.querySelector("title");
    if (title) readout.textContent = title.textContent;
  });
  byId("map-choice").hidden = false;
  show();
})();
"""
