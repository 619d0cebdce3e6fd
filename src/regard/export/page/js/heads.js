// The layers and heads of a Transformer as small pictures; one of them can be chosen for the large figure.

import { h } from "./dom.js";

const SIZE = 76;

/** Draw a small picture of weights: rows down, columns across. */
function thumbnail(rows, numColumns) {
  const canvas = h("canvas", { width: Math.max(1, numColumns), height: Math.max(1, rows.length), "aria-hidden": "true" });
  const context = canvas.getContext("2d"), picture = context.createImageData(canvas.width, canvas.height);
  const [red, green, blue] = bandColour();
  rows.forEach((row, y) => row.forEach((weight, x) => {
    picture.data.set([red, green, blue, Math.round(255 * Math.min(1, weight))], 4 * (y * canvas.width + x));
  }));
  context.putImageData(picture, 0, 0);
  canvas.style.setProperty("--size", `${SIZE}px`);
  return canvas;
}

function bandColour() {
  const probe = h("span", { class: "band-colour" });
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return found;
}

export class HeadsView {
  constructor(view) {
    this.view = view;
    this.groups = h("div", { class: "groups" });
    this.element = h("details", { class: "heads" }, h("summary", {}, "Layers and heads"),
      h("p", { class: "hint" }, "Choose what the figure shows, and what a change by hand replaces: one head, one layer, or all."), this.groups);
    this.element.addEventListener("toggle", () => this.draw());
  }

  draw() {
    const { result, model } = this.view;
    if (!result?.best || !this.element.open) return;
    const { layers, heads } = model.settings;
    const path = result.best.path;
    const cross = (layer, head) => path.map((step) => model.weightsAt(step, { layer, head }));
    const own = (layer, head) => path.map((step) => weightsOf(step.attention.own, layer, head));
    const within = (layer, head) => rowsOf(result.within, layer, head);
    const length = result.source.tokens.length;
    const groups = [h("div", { class: "group" }, h("h4", {}, model.words.heads),
      this.#button(model.words.alignment, null, null, path.map((step) => step.attention.cross), length))];
    for (let layer = 0; layer < layers; layer++) {
      groups.push(h("div", { class: "group" },
        this.#button(`layer ${layer + 1}`, layer, null, cross(layer, null), length),
        Array.from({ length: heads }, (_, head) => this.#button(`head ${head + 1}`, layer, head, cross(layer, head), length, `layer ${layer + 1}, `))));
    }
    const plain = (title, count, numHeads, rows, columns) => {
      groups.push(h("h4", {}, title));
      for (let layer = 0; layer < count; layer++) {
        groups.push(h("div", { class: "group" }, Array.from({ length: numHeads }, (_, head) => h("figure", {},
          thumbnail(rows(layer, head), columns), h("figcaption", {}, `${layer + 1}.${head + 1}`)))));
      }
    };
    if (path[0].attention.own) plain("Output words read the output so far", ...path[0].attention.own.sizes.slice(0, 2), own, path.length);
    if (result.within) plain("Source words read source words", ...result.within.sizes.slice(0, 2), within, length);
    const focused = this.groups.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.groups.replaceChildren(...groups);
    if (focused) [...this.groups.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
  }

  #button(label, layer, head, rows, columns, before = "") {
    const { site } = this.view;
    const chosen = site.layer === layer && site.head === head;
    return h("button", {
      type: "button", class: "head", "aria-pressed": String(chosen), "aria-label": `Show ${before}${label}`, "data-key": `site-${layer}-${head}`,
      onclick: () => this.view.showSite({ layer, head }),
    }, thumbnail(rows, columns), label);
  }
}

/** Return the weights of a layer and head at one step, from (layers, heads, length). */
function weightsOf({ data, sizes }, layer, head) {
  const [, heads, length] = sizes;
  return [...data.subarray((layer * heads + head) * length, (layer * heads + head + 1) * length)];
}

/** Return the rows of a layer and head, from (layers, heads, rows, columns). */
function rowsOf({ data, sizes }, layer, head) {
  const [, heads, rows, columns] = sizes;
  const start = (layer * heads + head) * rows * columns;
  return Array.from({ length: rows }, (_, row) => [...data.subarray(start + row * columns, start + (row + 1) * columns)]);
}
