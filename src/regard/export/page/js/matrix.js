// The weights as a table: output words down, source words across. Each cell can be reached and changed with the keyboard.

import { h, keepFocus, percent } from "./dom.js";

export class MatrixView {
  /** actions: select(row), attendTo(row, column), change(row, column, amount), key(event). */
  constructor(actions) {
    this.actions = actions;
    this.element = h("div", { class: "matrix" });
    this.at = [0, 0];
  }

  draw({ source, output, matrix, selected, upTo }, caption) {
    this.at = [Math.min(this.at[0], matrix.length - 1), Math.min(this.at[1], source.length - 1)];
    const head = h("tr", {}, h("td"), source.map((word) =>
      h("th", { scope: "col", class: `${word.unknown ? "unknown" : ""} ${word.dropped ? "dropped" : ""}` }, h("span", {}, word.text))));
    const rows = matrix.map((weights, row) => {
      const word = output[row];
      const kinds = `${row === selected ? "selected" : ""} ${word.edited ? "edited" : ""} ${row >= upTo ? "later" : ""}`;
      return h("tr", { class: kinds },
        h("th", { scope: "row", class: word.changed ? "changed" : "" }, word.text),
        weights.map((weight, column) => this.#cell(weight, row, column, output[row], source[column])));
    });
    const table = h("table", { role: "grid", "aria-label": caption, class: source.length > 16 ? "many" : null, vars: { "--columns": source.length } }, h("thead", {}, head), h("tbody", {}, rows));
    keepFocus(this.element, () => this.element.replaceChildren(table));
  }

  #cell(weight, row, column, output, source) {
    const never = weight === null; // a word that comes later
    const told = never ? "comes later" : percent(weight);
    return h("td", {
        tabindex: row === this.at[0] && column === this.at[1] ? 0 : -1, "data-key": `cell-${row}-${column}`, role: "gridcell",
        "aria-label": `${output.text} reads ${source.text}: ${told}`, title: `${output.text} ← ${source.text}: ${told}`,
        vars: { "--weight": (weight ?? 0).toFixed(3) }, class: never ? "never" : weight > 0.7 ? "strong" : weight > 0.57 ? "middle" : null,
        onclick: () => this.actions.select(row), ondblclick: () => this.actions.attendTo(row, column),
        onfocus: () => (this.at = [row, column]), onkeydown: (event) => this.#key(event, row, column),
      }, weight >= 0.095 ? String(Math.round(100 * weight)) : "");
  }

  #key(event, row, column) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (moves[event.key]) {
      const [down, across] = moves[event.key];
      const next = [...this.element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === `cell-${row + down}-${column + across}`);
      if (next) {
        for (const cell of this.element.querySelectorAll('td[tabindex="0"]')) cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    } else if (event.key === "Enter") this.actions.attendTo(row, column);
    else if (event.key === " ") this.actions.select(row);
    else if (event.key === "+" || event.key === "-") this.actions.change(row, column, event.key === "+" ? 0.1 : -0.1);
    else return this.actions.key(event, row);
    event.preventDefault();
  }
}
