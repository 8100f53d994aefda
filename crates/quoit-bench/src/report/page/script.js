"use strict";
// Tables sort by the column whose head is pressed.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const sort = (head, column) => {
    const descending = head.getAttribute("aria-sort") !== "descending";
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => {
      const [left, right] = [key(a), key(b)];
      const numbers = left !== "" && right !== "" && !isNaN(left) && !isNaN(right);
      return numbers ? left - right : left.localeCompare(right, undefined, { numeric: true });
    };
    const rows = [...body.rows].sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(head, column));
    head.replaceChildren(button);
  });
}
// Plots tell the values under the pointer, or move along with the arrow keys.
for (const figure of document.querySelectorAll("figure[data-plot]")) {
  const svg = figure.querySelector("svg");
  const cursor = svg.querySelector(".cursor");
  const { x, at, series } = JSON.parse(figure.querySelector("script").textContent);
  if (x.length === 0) continue;
  const readout = document.createElement("div");
  readout.className = "readout";
  readout.setAttribute("aria-live", "polite");
  readout.hidden = true;
  figure.append(readout);
  let shown = -1;
  const line = (entry, index) => {
    const row = document.createElement("span");
    const key = document.createElement("i");
    key.className = "key " + entry.class;
    const name = document.createElement("span");
    name.textContent = entry.name;
    name.prepend(key);
    const value = document.createElement("strong");
    value.textContent = entry.text[index];
    row.append(name, value);
    return row;
  };
  const show = (index) => {
    shown = Math.max(0, Math.min(x.length - 1, index));
    const head = document.createElement("b");
    head.textContent = at[shown];
    const known = series.filter((entry) => entry.text[shown] !== null);
    readout.replaceChildren(head, ...known.map((entry) => line(entry, shown)));
    readout.hidden = false;
    cursor.setAttribute("x1", x[shown]);
    cursor.setAttribute("x2", x[shown]);
    cursor.style.visibility = "visible";
    const outer = figure.getBoundingClientRect();
    const point = new DOMPoint(x[shown], 0).matrixTransform(svg.getScreenCTM());
    const left = point.x - outer.left;
    const fits = left + 14 + readout.offsetWidth <= outer.width;
    readout.style.left = (fits ? left + 14 : Math.max(0, left - 14 - readout.offsetWidth)) + "px";
    readout.style.top = svg.getBoundingClientRect().top - outer.top + 12 + "px";
  };
  const hide = () => {
    readout.hidden = true;
    cursor.style.visibility = "hidden";
  };
  svg.addEventListener("pointermove", (event) => {
    const place = new DOMPoint(event.clientX, 0).matrixTransform(svg.getScreenCTM().inverse()).x;
    let [low, high] = [0, x.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x[middle] < place) low = middle;
      else high = middle;
    }
    show(place - x[low] < x[high] - place ? low : high);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.tabIndex = 0;
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") hide();
    if (step === undefined) return;
    event.preventDefault();
    show(shown < 0 ? (step > 0 ? 0 : x.length - 1) : shown + step);
  });
}
