"use strict";
// Matrices: each article contains the data of its matrices as JSON. Everything is put into the page as text, never as markup.
for (const article of document.querySelectorAll(".matrix")) {
  const data = JSON.parse(article.querySelector("script").textContent);
  const table = article.querySelector("table");
  const readout = article.querySelector(".readout");
  const lines = { row: article.querySelector(".rows .words"), column: article.querySelector(".columns .words") };
  const site = article.querySelector("select.site");
  const head = article.querySelector("select.head");
  const units = article.querySelector("select.units");
  const told = article.querySelector(".told");
  const names = { source: "source", target: "output", read: "output" };
  let view = data.views[0];
  let places = {};

  const words = (side) => data.words[view.units][side === "row" ? view.rows : view.columns];
  const isUnknown = (side, index) => data.unknown[view.units][side === "row" ? view.rows : view.columns].includes(index);
  const other = (side) => (side === "row" ? "column" : "row");
  const at = (row, column) => view.cells[row * words("column").length + column];
  const weight = (cell) => cell / 10 ** data.places;
  const value = (cell) => weight(cell).toFixed(data.places);
  const shade = (cell) =>
    (cell < 0 ? "b" : "a") + Math.floor(Math.min(1, Math.abs(weight(cell)) / data.scale) * data.levels + 0.5);
  const turned = (each) => data.rtl.includes(each.columns);

  const clear = () => {
    for (const side of ["row", "column"])
      [...lines[side].children].forEach((word, index) => (word.className = isUnknown(side, index) ? "word unknown" : "word"));
    for (const marked of article.querySelectorAll(".here")) marked.classList.remove("here");
  };

  // Select a word of one side: shade the words of the other side by their weights, and write the largest weights.
  const showWord = (side, index) => {
    clear();
    const others = words(other(side));
    const cells = others.map((_, j) => (side === "row" ? at(index, j) : at(j, index)));
    lines[side].children[index].classList.add("here");
    cells.forEach((cell, j) => lines[other(side)].children[j].classList.add(shade(cell)));
    header(side, index).classList.add("here");
    const best = cells.map((cell, j) => [cell, others[j]]).filter(([cell]) => cell !== 0);
    best.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const arrow = side === "row" ? " ← " : " → ";
    readout.textContent =
      words(side)[index] + arrow + (best.slice(0, 5).map(([cell, word]) => `${word} ${value(cell)}`).join(" · ") || "nothing");
  };

  const showCell = (row, column) => {
    showWord("row", row);
    for (const marked of lines.column.querySelectorAll(".here")) marked.classList.remove("here");
    lines.column.children[column].classList.add("here");
    header("column", column).classList.add("here");
    table.tBodies[0].rows[row].cells[column + 1].classList.add("here");
    readout.textContent = `${words("row")[row]} ← ${words("column")[column]}: ${value(at(row, column))}`;
  };

  const header = (side, index) =>
    side === "row" ? table.tBodies[0].rows[index].cells[0] : table.tHead.rows[0].cells[index + 1];

  // Return the position of an element that is a word, a heading or a cell; null for other elements.
  const place = (element) => {
    const word = element.closest?.(".word");
    if (word) return { kind: "word", side: word.parentElement === lines.row ? "row" : "column", index: position(word) };
    const cell = element.closest?.("td, th");
    if (!cell || !table.contains(cell) || cell.classList.contains("corner")) return null;
    if (cell.tagName === "TD") return { kind: "cell", row: cell.parentElement.sectionRowIndex, column: cell.cellIndex - 1 };
    return cell.scope === "row"
      ? { kind: "word", side: "row", index: cell.parentElement.sectionRowIndex }
      : { kind: "word", side: "column", index: cell.cellIndex - 1 };
  };
  const position = (element) => Array.prototype.indexOf.call(element.parentElement.children, element);

  const show = (event) => {
    const found = place(event.target);
    if (found) found.kind === "cell" ? showCell(found.row, found.column) : showWord(found.side, found.index);
  };

  // The Tab key stops once in each line and once in the grid; arrow keys move inside.
  const stop = (group, element) => {
    places[group]?.removeAttribute("tabindex");
    places[group] = element;
    element?.setAttribute("tabindex", "0");
  };
  const move = (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const found = place(event.target);
    if (!found) return;
    const ends = event.key === "Home" ? -1 : event.key === "End" ? 1 : 0;
    if (!steps[event.key] && !ends) return;
    event.preventDefault();
    const clamp = (index, length) => Math.max(0, Math.min(length - 1, index));
    const [down, right] = ends ? [0, ends * 1e6] : steps[event.key];
    let target;
    let group = "grid";
    if (found.kind === "cell") {
      const row = clamp(found.row + down, words("row").length);
      const turn = !ends && turned(view) ? -1 : 1;
      target = table.tBodies[0].rows[row].cells[clamp(found.column + turn * right, words("column").length) + 1];
    } else {
      group = found.side;
      // If the sentence runs from right to left, the left and right arrow keys are exchanged.
      const turn = !ends && getComputedStyle(lines[group]).direction === "rtl" ? -1 : 1;
      target = lines[group].children[clamp(found.index + down + turn * right, words(group).length)];
    }
    stop(group, target);
    target.focus();
  };

  const drawLine = (side) => {
    lines[side].previousElementSibling.textContent = names[side === "row" ? view.rows : view.columns];
    lines[side].replaceChildren(
      ...words(side).map((word, index) => {
        const span = document.createElement("span");
        span.className = isUnknown(side, index) ? "word unknown" : "word"; // no dir attribute: dir="auto" of the line ignores children that have one
        span.textContent = word;
        return span;
      }),
    );
    stop(side, lines[side].firstElementChild);
  };

  const drawTable = () => {
    const cell = (tag, text, scope, unknown) => {
      const made = document.createElement(tag);
      if (!scope) return (made.textContent = text), made;
      made.scope = scope;
      const span = document.createElement("span");
      span.dir = "auto";
      span.classList.toggle("unknown", unknown);
      span.textContent = span.title = text;
      made.append(span);
      return made;
    };
    const columns = words("column");
    const heads = table.tHead.rows[0];
    heads.replaceChildren(heads.cells[0], ...columns.map((word, column) => cell("th", word, "col", isUnknown("column", column))));
    table.tBodies[0].replaceChildren(
      ...words("row").map((word, row) => {
        const line = document.createElement("tr");
        line.append(cell("th", word, "row", isUnknown("row", row)));
        columns.forEach((_, column) => {
          const weight = at(row, column);
          const made = cell("td", weight ? value(weight) : "");
          made.className = shade(weight);
          line.append(made);
        });
        return line;
      }),
    );
    table.parentElement.dir = turned(view) ? "rtl" : "ltr"; // set on the element that scrolls, so that the first words are in view
    const letters = columns.reduce((sum, word) => sum + Math.min(word.length, 24), 0);
    table.className = columns.length > 24 ? "many crowd" : columns.length > 8 || letters > 100 ? "many" : "";
    stop("grid", table.querySelector("td"));
  };

  // Draw every matrix as a small button, with a line for each site; a click shows the matrix in full.
  const gallery = article.querySelector(".gallery");
  const small = new Map();
  const drawGallery = () => {
    const probe = article.appendChild(document.createElement("i"));
    const colours = {};
    for (const letter of "ab")
      for (let level = 0; level <= data.levels; level++) {
        probe.className = letter + level;
        colours[letter + level] = getComputedStyle(probe).backgroundColor.match(/\d+/g).slice(0, 3);
      }
    probe.remove();
    for (const [each, button] of small) {
      const canvas = button.firstElementChild;
      canvas.width = data.words[each.units][each.columns].length || 1;
      canvas.height = data.words[each.units][each.rows].length || 1;
      const image = new ImageData(canvas.width, canvas.height);
      const place = (index) => {
        const column = index % canvas.width;
        return turned(each) ? index - 2 * column + canvas.width - 1 : index;
      };
      each.cells.forEach((cell, index) => image.data.set([...colours[shade(cell)], 255], 4 * place(index)));
      canvas.getContext("2d").putImageData(image, 0, 0);
    }
  };
  const makeGallery = () => {
    const layers = new Map();
    for (const each of data.views) {
      const button = document.createElement("button");
      button.type = "button";
      const alone = !data.views.some((x) => x.site === each.site && x.head !== null);
      const whole = alone ? each.site : `${each.site} mean`;
      button.append(document.createElement("canvas"), each.head === null ? whole : `head ${each.head}`);
      button.addEventListener("click", () => {
        site.value = each.site;
        chooseSite(String(each.head));
      });
      small.set(each, button);
      if (!layers.has(each.site)) layers.set(each.site, gallery.appendChild(document.createElement("div")));
      layers.get(each.site).append(button);
    }
    drawGallery();
    gallery.parentElement.hidden = false;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawGallery);
    new MutationObserver(drawGallery).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  };

  const choose = () => {
    const found = data.views.filter((x) => x.site === site.value && String(x.head) === head.value);
    view = found.find((x) => x.units === units.value) ?? data.views.find((x) => x.units === units.value);
    [site.value, head.value] = [view.site, String(view.head)];
    for (const [each, button] of small) {
      button.setAttribute("aria-pressed", each === view);
      button.hidden = each.units !== view.units;
    }
    for (const side of ["row", "column"]) drawLine(side);
    drawTable();
    table.parentElement.hidden = article.querySelector(".legend").hidden = !view.cells.length;
    article.querySelector(".nothing").hidden = view.cells.length > 0;
    readout.textContent = view.cells.length ? "Hover or focus a word or a cell." : "";
    if (told) told.textContent = view.told;
  };
  const chooseSite = (wanted) => {
    const heads = data.views.filter((x) => x.site === site.value && x.units === data.views[0].units).map((x) => x.head);
    head.replaceChildren(...heads.map((x) => new Option(x === null ? "mean" : x, String(x))));
    head.parentElement.hidden = heads.length < 2;
    if (wanted) head.value = wanted;
    choose();
  };

  site.append(...[...new Set(data.views.map((x) => x.site))].map((x) => new Option(x, x)));
  site.parentElement.hidden = site.options.length < 2;
  article.querySelector(".choice").hidden = data.views.length < 2;
  units.append(...Object.keys(data.words).map((x) => new Option(x, x)));
  units.parentElement.hidden = units.options.length < 2;
  units.addEventListener("change", choose);
  site.addEventListener("change", () => chooseSite());
  head.addEventListener("change", choose);
  if (data.views.filter((x) => x.units === view.units).length > 2) makeGallery();
  chooseSite();
  article.addEventListener("pointerover", show);
  article.addEventListener("focusin", show);
  article.addEventListener("keydown", move);
}
