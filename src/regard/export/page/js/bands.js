// Source words and output words, joined by bands whose widths show the weights. The end of a band can be dragged to another word.

import { isRightToLeft, keepFocus, percent, s, shorten, widthOf } from "./dom.js";

const LEAST = 0.015; // smaller weights are not drawn
const remsToPixels = (rems) => rems * parseFloat(getComputedStyle(document.documentElement).fontSize);

export class BandsView {
  /**
   * actions: select(row), toggle(column) or null, move(row, from, to) while a band is dragged, drop() at its end, cancel().
   */
  constructor(actions) {
    this.actions = actions;
    this.drag = null;
    this.hover = null; // {row} or {column}
    this.svg = s("svg", { class: "bands", role: "group", "aria-label": "Attention between source and output words" });
    this.svg.addEventListener("pointermove", (event) => this.#pointerMoves(event));
    this.svg.addEventListener("pointerup", () => this.#endDrag(true));
    this.svg.addEventListener("pointercancel", () => this.#endDrag(false));
    this.svg.addEventListener("pointerleave", () => this.#setHover(null));
    this.svg.addEventListener("keydown", (event) => event.key === "Escape" && this.#endDrag(false));
  }

  /**
   * data: source and output (words with their marks), matrix (output × source), selected (row), upTo (rows that are written), and
   * resting (words of the output without changes by hand; they decide where everything is, so that nothing moves under the pointer).
   */
  draw(data) {
    this.data = data;
    keepFocus(this.svg, () => this.#redraw());
  }

  #redraw() {
    const { source, output, resting, matrix } = this.data;
    const width = Math.max(260, this.svg.parentElement?.clientWidth ?? 600);
    const font = `${getComputedStyle(this.svg).fontSize} ${getComputedStyle(this.svg).fontFamily}`;
    const most = width * 0.34;
    const column = (texts) => Math.min(most, Math.max(30, ...texts.map((text) => widthOf(text, font)))) + 14;
    const [left, right] = [column(source.map((word) => word.text)), width - column(resting)];
    const lines = Math.max(source.length, resting.length, 1);
    const lineHeight = remsToPixels(Math.min(2.2, Math.max(1.5, 32 / lines))), thickest = 0.57 * lineHeight; // 32 rem fit a window
    const room = (lines + 0.4) * lineHeight;
    const outputLine = Math.max(remsToPixels(1.3), Math.min(lineHeight, room / output.length)); // more words than before move closer
    const height = Math.max(room, output.length * outputLine);
    const yOf = (count, line) => (place) => Math.max(0, (room - count * line) / 2) + (place + 0.5) * line;
    this.layout = {
      left, right, height, lineHeight, outputLine, thickest, sourceY: yOf(source.length, lineHeight), outputY: yOf(output.length, outputLine),
      font, most, rightmost: width - right - 14,
    };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const bands = this.#bands(matrix);
    this.svg.replaceChildren(
      s("g", { class: "paths" }, bands),
      s("g", {}, source.map((word, place) => this.#sourceWord(word, place))),
      s("g", {}, output.map((word, place) => this.#outputWord(word, place))),
    );
    if (this.drag) this.#drawGhost();
    this.#applyHover();
  }

  #bands(matrix) {
    const { left, right, lineHeight, thickest, sourceY, outputY } = this.layout;
    const received = this.data.source.map((_, column) => matrix.reduce((sum, row) => sum + row[column], 0));
    const shrink = received.map((sum) => Math.min(1, (0.78 * lineHeight) / (sum * thickest || 1)));
    const leftAt = received.map((sum, column) => sourceY(column) - (sum * thickest * shrink[column]) / 2);
    const bands = [];
    matrix.forEach((weights, row) => {
      let rightAt = outputY(row) - (weights.reduce((a, b) => a + b, 0) * thickest) / 2;
      weights.forEach((weight, column) => {
        const thick = weight * thickest, leftThick = thick * shrink[column];
        const [y1, y2] = [leftAt[column], rightAt];
        leftAt[column] += leftThick;
        rightAt += thick;
        if (weight < LEAST) return;
        const middle = (left + right) / 2;
        const path =
          `M${left},${y1}C${middle},${y1} ${middle},${y2} ${right},${y2}V${y2 + thick}` +
          `C${middle},${y2 + thick} ${middle},${y1 + leftThick} ${left},${y1 + leftThick}Z`;
        const words = `${this.data.output[row].text} ← ${this.data.source[column].text}: ${percent(weight)}`;
        bands.push(s("g", { class: "band", "data-row": row, "data-column": column },
          s("path", { class: "ribbon", d: path, vars: { "--weight": weight.toFixed(3) } }, s("title", {}, words)),
          s("path", {
            class: "grip", d: `M${left},${y1 + leftThick / 2}C${middle},${y1 + leftThick / 2} ${middle},${y2 + thick / 2} ${right},${y2 + thick / 2}`,
            "stroke-width": Math.max(10, thick), onpointerdown: (event) => this.#startDrag(event, row, column),
            onpointerenter: () => this.#setHover({ row, column }),
          }, s("title", {}, `${words}. Drag it to another word.`))));
      });
    });
    return bands;
  }

  #sourceWord(word, column) {
    const { left, lineHeight, sourceY, font, most } = this.layout;
    const marks = [word.unknown && "not in the vocabulary", word.dropped && "left out"].filter(Boolean);
    const name = `${word.text}${marks.length ? ` (${marks.join(", ")})` : ""}`, { toggle } = this.actions;
    const acting = toggle && {
      tabindex: 0, role: "button", "aria-pressed": word.dropped ? "true" : "false", "aria-label": `${name}: ${word.dropped ? "put it back" : "leave it out"}`,
      onclick: () => toggle(column), onkeydown: (event) => activate(event, () => toggle(column)),
    };
    return s("g", {
        class: `word source${word.unknown ? " unknown" : ""}${word.dropped ? " dropped" : ""}`, "data-key": `source-${column}`, "data-column": column,
        transform: `translate(${left - 10},${sourceY(column)})`, ...acting,
        onpointerenter: () => this.#setHover({ column }), onfocus: () => this.#setHover({ column }),
      },
      s("rect", { class: "hit", x: 10 - left, y: -lineHeight / 2, width: left - 4, height: lineHeight }),
      s("text", { "text-anchor": isRightToLeft(word.text) ? "start" : "end", dy: "0.35em", direction: isRightToLeft(word.text) ? "rtl" : null },
        shorten(word.text, most, font)));
  }

  #outputWord(word, row) {
    const { right, outputLine, outputY, font, rightmost } = this.layout;
    const marks = [word.changed && "changed", word.differs && "differs", word.edited && "attention changed by hand"].filter(Boolean);
    const later = row >= this.data.upTo;
    const kinds = [
      ["selected", row === this.data.selected], ["changed", word.changed], ["differs", word.differs], ["edited", word.edited], ["typed", word.typed],
      ["later", later],
    ].filter(([, is]) => is).map(([name]) => ` ${name}`).join("");
    return s("g", {
        class: `word output${kinds}`, tabindex: 0, role: "button", "aria-pressed": row === this.data.selected ? "true" : "false",
        "data-key": `output-${row}`, "data-row": row,
        "aria-label": `${word.text}${marks.length ? ` (${marks.join(", ")})` : ""}: select`,
        transform: `translate(${right + 10},${outputY(row)})`, onclick: () => this.actions.select(row),
        onkeydown: (event) => activate(event, () => this.actions.select(row)) || this.actions.key(event),
        onpointerenter: () => this.#setHover({ row }), onfocus: () => this.#setHover({ row }),
      },
      s("rect", { class: "hit", x: -6, y: -outputLine / 2, width: this.svg.getAttribute("width") - right - 4, height: outputLine, rx: 4 }),
      word.edited ? s("circle", { class: "mark", cx: -10, r: 4 }) : null,
      s("text", { dy: "0.35em", "text-anchor": isRightToLeft(word.text) ? "end" : "start", direction: isRightToLeft(word.text) ? "rtl" : null },
        shorten(word.text, rightmost + 1, font)));
  }

  #setHover(hover) {
    if (this.drag) return;
    this.hover = hover;
    this.#applyHover();
  }

  #applyHover() {
    const chosen = this.hover ?? (this.data?.selected === null ? null : { row: this.data.selected });
    this.svg.classList.toggle("focused", chosen !== null && chosen.row !== undefined || chosen?.column !== undefined);
    for (const band of this.svg.querySelectorAll(".band")) {
      const row = Number(band.dataset.row), column = Number(band.dataset.column);
      const lit = chosen && (chosen.row === undefined || chosen.row === row) && (chosen.column === undefined || chosen.column === column);
      band.classList.toggle("lit", Boolean(lit));
      band.classList.toggle("later", row >= this.data.upTo);
    }
  }

  #startDrag(event, row, column) {
    if (event.button) return;
    event.preventDefault();
    this.svg.setPointerCapture(event.pointerId);
    this.drag = { row, from: column, to: column, y: this.layout.sourceY(column), pointer: event.pointerId };
    this.hover = { row };
    this.svg.classList.add("dragging");
    this.actions.select(row);
    this.#drawGhost();
  }

  #pointerMoves(event) {
    if (!this.drag) return;
    const box = this.svg.getBoundingClientRect();
    this.drag.y = ((event.clientY - box.top) * this.layout.height) / box.height;
    const distances = this.data.source.map((word, column) => (word.dropped || this.data.matrix[this.drag.row][column] === null ? Infinity : Math.abs(this.layout.sourceY(column) - this.drag.y)));
    const to = distances.indexOf(Math.min(...distances));
    this.#drawGhost();
    if (to === this.drag.to) return;
    this.drag.to = to;
    this.actions.move(this.drag.row, this.drag.from, to);
  }

  #drawGhost() {
    this.svg.querySelector(".ghost")?.remove();
    const { left, right, outputY } = this.layout, { row, y } = this.drag, middle = (left + right) / 2;
    this.svg.append(s("g", { class: "ghost" },
      s("path", { d: `M${left},${y}C${middle},${y} ${middle},${outputY(row)} ${right},${outputY(row)}` }),
      s("circle", { cx: left, cy: y, r: 6 })));
  }

  #endDrag(kept) {
    if (!this.drag) return;
    const moved = this.drag.to !== this.drag.from;
    this.drag = null;
    this.hover = null;
    this.svg.classList.remove("dragging");
    this.svg.querySelector(".ghost")?.remove();
    if (kept && moved) this.actions.drop();
    else if (moved) this.actions.cancel();
    this.#applyHover();
  }
}

/** Do what a click does when Enter or the space bar is pressed. */
function activate(event, action) {
  if (event.key !== "Enter" && event.key !== " ") return false;
  event.preventDefault();
  action();
  return true;
}
