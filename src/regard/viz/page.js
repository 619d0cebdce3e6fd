// Matrices: each article contains the data of its matrices as JSON. Everything is put into the page as text, never as markup.
for (const article of document.querySelectorAll(".matrix")) {
  const data = JSON.parse(article.querySelector("script").textContent);
  const table = article.querySelector("table");
  const readout = article.querySelector(".readout");
  const lines = { row: article.querySelector(".rows .words"), column: article.querySelector(".columns .words") };
  const site = article.querySelector("select.site");
  const head = article.querySelector("select.head");
  const units = article.querySelector("select.units");
  const texts = article.querySelector("select.texts");
  const told = article.querySelector(".told");
  let view = data.views[0];
  let places = {};
  // The indices of the words that the lines and the table list: not those of patches and frames, and only the chosen texts.
  let listed = { row: [], column: [] };

  const axis = (side) => (side === "row" ? view.rows : view.columns);
  const words = (side) => data.words[view.units][axis(side)];
  // Return a word or the name of a place. Several images have places with the same names, so the name of the image is added.
  const name = (side, index) => {
    const covers = (span) => span.figure !== null && span.start <= index && index < span.end;
    const span = data.figures.length > 1 && data.spans[view.units][axis(side)].find(covers);
    return (span ? `${span.name}, ` : "") + words(side)[index];
  };
  const isUnknown = (side, index) => data.unknown[view.units][axis(side)].includes(index);
  const textsOf = (side) => data.spans[view.units][axis(side)].filter((span) => span.figure === null);
  // Whether a text begins with this word, which is not the first one that is listed.
  const isBorder = (side, index) => index !== listed[side][0] && textsOf(side).some((span) => span.start === index || span.end === index);
  const wordClass = (side, index) => `word${isUnknown(side, index) ? " unknown" : ""}${isBorder(side, index) ? " border" : ""}`;
  const chip = (side, index) => lines[side].children[listed[side].indexOf(index)];
  const other = (side) => (side === "row" ? "column" : "row");
  const at = (row, column) => view.cells[row * words("column").length + column];
  const weight = (cell, of = view) => cell / 10 ** of.places;
  const value = (cell) => weight(cell).toFixed(view.digits);
  const exactly = (cell) => weight(cell).toFixed(view.places);
  const shade = (cell, of = view) =>
    (cell < 0 ? "b" : "a") + Math.floor(Math.min(1, Math.abs(weight(cell, of)) / of.scale) * data.levels + 0.5);
  const turned = (each) => data.rtl.includes(each.columns);

  const clear = () => {
    for (const side of ["row", "column"])
      listed[side].forEach((index) => (chip(side, index).className = wordClass(side, index)));
    for (const marked of article.querySelectorAll(".here")) marked.classList.remove("here");
  };

  // Select a word of one side: shade the words of the other side by their weights, and write the largest weights.
  const showWord = (side, index) => {
    clear();
    const cells = words(other(side)).map((_, j) => (side === "row" ? at(index, j) : at(j, index)));
    chip(side, index)?.classList.add("here");
    for (const j of listed[other(side)]) chip(other(side), j).classList.add(shade(cells[j]));
    header(side, index)?.classList.add("here");
    if (side === "row") stage?.heat(index);
    stage?.mark(side === "row" ? -1 : index);
    const isShown = (j) => listed[other(side)].includes(j) || (side === "row" && stage?.covers(j));
    const best = cells.map((cell, j) => [cell, j]).filter(([cell, j]) => cell !== 0 && isShown(j));
    best.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const arrow = side === "row" ? " ← " : " → ";
    const largest = best.slice(0, 5).map(([cell, j]) => `${name(other(side), j)} ${exactly(cell)}`);
    readout.textContent = name(side, index) + arrow + (largest.join(" · ") || "nothing");
  };

  const showCell = (row, column) => {
    showWord("row", row);
    for (const marked of lines.column.querySelectorAll(".here")) marked.classList.remove("here");
    chip("column", column).classList.add("here");
    header("column", column).classList.add("here");
    table.tBodies[0].rows[listed.row.indexOf(row)].cells[listed.column.indexOf(column) + 1].classList.add("here");
    readout.textContent = `${words("row")[row]} ← ${words("column")[column]}: ${value(at(row, column))}`;
  };

  // A patch or a frame that is pointed at shades the words; when the pointer leaves, the words are as before.
  const stage = makeStage(article, data, (side, index) => {
    const own = side === "column" ? stage.rowOf(index) : undefined;
    if (own !== undefined) {
      showWord("row", own);
      return stage.mark(index);
    }
    if (side !== "none") return showWord(side, index);
    clear();
    stage.mark(-1);
    readout.textContent = hint();
  });

  const header = (side, index) => {
    const at = listed[side].indexOf(index);
    return side === "row" ? table.tBodies[0].rows[at]?.cells[0] : at < 0 ? undefined : table.tHead.rows[0].cells[at + 1];
  };

  // Return the position of an element that is a word, a heading or a cell; null for other elements.
  const place = (element) => {
    const word = element.closest?.(".word");
    if (word) {
      const side = word.parentElement === lines.row ? "row" : "column";
      return { kind: "word", side, index: listed[side][position(word)] };
    }
    const cell = element.closest?.("td, th");
    if (!cell || !table.contains(cell) || cell.classList.contains("corner")) return null;
    const [row, column] = [listed.row[cell.parentElement.sectionRowIndex], listed.column[cell.cellIndex - 1]];
    if (cell.tagName === "TD") return { kind: "cell", row, column };
    return cell.scope === "row" ? { kind: "word", side: "row", index: row } : { kind: "word", side: "column", index: column };
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
      const row = clamp(listed.row.indexOf(found.row) + down, listed.row.length);
      const turn = !ends && turned(view) ? -1 : 1;
      target = table.tBodies[0].rows[row].cells[clamp(listed.column.indexOf(found.column) + turn * right, listed.column.length) + 1];
    } else {
      group = found.side;
      // If the sentence runs from right to left, the left and right arrow keys are exchanged.
      const turn = !ends && getComputedStyle(lines[group]).direction === "rtl" ? -1 : 1;
      target = lines[group].children[clamp(listed[group].indexOf(found.index) + down + turn * right, listed[group].length)];
    }
    stop(group, target);
    target.focus();
  };

  const drawLine = (side) => {
    lines[side].previousElementSibling.textContent = view.names[side === "row" ? 0 : 1];
    lines[side].parentElement.hidden = !listed[side].length;
    lines[side].replaceChildren(
      ...listed[side].map((index) => {
        const span = document.createElement("span");
        span.className = wordClass(side, index); // no dir attribute: dir="auto" of the line ignores children that have one
        if (side === "row" && stage) span.append(...stage.thumb(index));
        span.append(words(side)[index]);
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
    const columns = listed.column.map((column) => words("column")[column]);
    const heads = table.tHead.rows[0];
    heads.replaceChildren(
      heads.cells[0],
      ...listed.column.map((column) => {
        const made = cell("th", words("column")[column], "col", isUnknown("column", column));
        made.classList.toggle("border", isBorder("column", column));
        return made;
      }),
    );
    table.tBodies[0].replaceChildren(
      ...listed.row.map((row) => {
        const line = document.createElement("tr");
        line.className = isBorder("row", row) ? "border" : "";
        line.append(cell("th", words("row")[row], "row", isUnknown("row", row)));
        for (const column of columns.length ? listed.column : []) {
          const weight = at(row, column);
          const made = cell("td", weight ? value(weight) : "");
          made.className = shade(weight) + (isBorder("column", column) ? " border" : "");
          line.append(made);
        }
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
    const colours = shadeColours(article, data.levels);
    for (const [each, button] of small) {
      const canvas = button.firstElementChild;
      canvas.width = data.words[each.units][each.columns].length || 1;
      canvas.height = data.words[each.units][each.rows].length || 1;
      const image = new ImageData(canvas.width, canvas.height);
      const place = (index) => {
        const column = index % canvas.width;
        return turned(each) ? index - 2 * column + canvas.width - 1 : index;
      };
      each.cells.forEach((cell, index) => image.data.set([...colours[shade(cell, each)], 255], 4 * place(index)));
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
    whenThemeChanges(drawGallery);
  };

  const choose = () => {
    const found = data.views.filter((x) => x.site === site.value && String(x.head) === head.value);
    view = found.find((x) => x.units === units.value) ?? data.views.find((x) => x.units === units.value);
    [site.value, head.value] = [view.site, String(view.head)];
    for (const [each, button] of small) {
      button.setAttribute("aria-pressed", each === view);
      button.hidden = each.units !== view.units;
    }
    offerTexts();
    showChosen();
    if (told) told.textContent = view.told;
  };
  // Offer the pairs of texts between which attention can be shown alone.
  const offerTexts = () => {
    const [from, to] = [textsOf("row"), textsOf("column")];
    const pairs = from.flatMap((row) => to.map((column) => [row, column]));
    texts.replaceChildren(
      new Option("all", ""),
      ...pairs.map(([row, column], place) => new Option(`${row.name} → ${column.name}`, String(place))),
    );
    texts.parentElement.hidden = from.length + to.length < 2 || !from.length || !to.length;
  };
  const showChosen = () => {
    const [from, to] = [textsOf("row"), textsOf("column")];
    const chosen = texts.value === "" ? {} : { row: from[Math.floor(texts.value / to.length)], column: to[texts.value % to.length] };
    for (const side of ["row", "column"]) {
      const placed = data.spans[view.units][axis(side)].filter((span) => span.figure !== null);
      const { start, end } = chosen[side] ?? { start: 0, end: Infinity };
      listed[side] = [...words(side).keys()].filter(
        (index) => start <= index && index < end && !placed.some((span) => span.start <= index && index < span.end),
      );
    }
    stage?.draw(view);
    for (const side of ["row", "column"]) drawLine(side);
    stage?.paintAll();
    drawTable();
    const fold = table.closest("details");
    if (fold) fold.hidden = !listed.column.length;
    table.parentElement.hidden = !view.cells.length || !listed.column.length;
    for (const legend of article.querySelectorAll(".legend")) {
      legend.hidden = !view.cells.length;
      writeScale(legend, view, legend.closest(".stage") ? view.topOnPlaces : view.top);
    }
    article.querySelector(".nothing").hidden = view.cells.length > 0;
    readout.textContent = view.cells.length ? hint() : "";
  };
  const hint = () => {
    if (!stage) return "Hover or focus a word or a cell.";
    if (!listed.row.length) return "The mean of all patches. Point at one to see where it looks.";
    if (listed.row.length === 1) return `The weights of ${words("row")[listed.row[0]]}. Point at a part of the picture.`;
    return `${stage.isBare() ? "The mean of all words. " : ""}Point at a word or at a part of the picture.`;
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
  units.append(...Object.keys(data.words).map((x) => new Option(x, x)));
  units.parentElement.hidden = units.options.length < 2;
  texts.addEventListener("change", showChosen);
  units.addEventListener("change", choose);
  site.addEventListener("change", () => chooseSite());
  head.addEventListener("change", choose);
  if (data.views.filter((x) => x.units === view.units).length > 2) makeGallery();
  chooseSite();
  article.querySelector(".choice").hidden = [...article.querySelectorAll(".choice label")].every((label) => label.hidden);
  article.addEventListener("pointerover", show);
  article.addEventListener("focusin", show);
  article.addEventListener("keydown", move);
}
