// The beam as a tree: every hypothesis that the search has kept, from the start symbol to where it ended or was dropped.

import { decimal, h, s, shorten, widthOf } from "./dom.js";
import { END } from "./tokenizer.js";

const TREE_ROW = 24, COLUMN_GAP = 30, MOST_WIDTH = 120;

/** The nodes of a tree with their children, from the steps of a search. */
export function buildTree(steps, hypotheses) {
  const root = { step: -1, children: [], token: null };
  let before = [root];
  const bySlot = [];
  steps.forEach((step, number) => {
    const nodes = step.chosen.map((one) => {
      const node = { step: number, token: one.token, logProbability: one.logProbability, total: one.total, ended: one.ended, children: [] };
      before[one.parent].children.push(node);
      return node;
    });
    bySlot.push(nodes);
    before = (step.fed ?? []).map((slot) => nodes[slot]);
  });
  hypotheses.forEach((hypothesis, rank) => {
    hypothesis.path.forEach((one, number) => {
      const node = bySlot[number][one.slot];
      node.rank = Math.min(node.rank ?? Infinity, rank);
    });
  });
  return root;
}

export class TreeView {
  constructor(view) {
    this.view = view;
    this.sheet = h("div", { class: "sheet scroll", tabindex: 0, role: "region", "aria-label": `Tree of the beam search of ${view.model.settings.name}` });
    this.list = h("ol", { class: "alternatives" });
    this.element = h("details", { class: "tree" }, h("summary", {}, "The beam"), this.list, this.sheet);
    this.element.addEventListener("toggle", () => this.draw());
  }

  draw() {
    const { result } = this.view;
    if (!result?.best || !this.element.open) return;
    this.list.replaceChildren(...result.hypotheses.map((one) => h("li", { dir: "auto" },
      h("span", { class: "text" }, one.text), " ", h("span", { class: "share" }, `log probability ${decimal(one.logProbability, 2)}, score of the search ${decimal(one.score, 3)}${one.finished ? "" : ", cut"}`))));
    const root = buildTree(result.steps, result.hypotheses);
    this.sheet.replaceChildren(this.#picture(root));
  }

  #picture(root) {
    const { model } = this.view;
    const font = `${getComputedStyle(this.sheet).fontSize} ${getComputedStyle(this.sheet).fontFamily}`;
    const widths = [];
    let row = 0;
    const place = (node) => {
      if (node.token !== null) {
        node.text = shorten(model.spell(node.token), MOST_WIDTH, font);
        widths[node.step] = Math.max(widths[node.step] ?? 0, widthOf(node.text, font));
      }
      node.children.sort((a, b) => (a.rank ?? 99) - (b.rank ?? 99) || b.total - a.total).forEach(place);
      node.y = node.children.length ? node.children[0].y : row++;
    };
    place(root);
    const xs = [14];
    widths.forEach((width, step) => (xs[step + 1] = xs[step] + width + COLUMN_GAP));
    const x = (node) => (node.step < 0 ? 0 : xs[node.step]);
    const right = (node) => (node.step < 0 ? 8 : x(node) + widthOf(node.text, font) + 5);
    const y = (node) => node.y * TREE_ROW + TREE_ROW / 2 + 4;
    const links = [], labels = [s("circle", { cx: 4, cy: y(root), r: 3, class: "root" })];
    const draw = (node) => {
      for (const child of node.children) {
        const [x1, y1, x2, y2] = [right(node), y(node), x(child) - 5, y(child)];
        const middle = (x1 + x2) / 2;
        links.push(s("path", { class: `link${kindOf(child)}`, d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}` }));
        labels.push(s("text", { class: `node${kindOf(child)}`, x: x(child), y: y(child), dy: "0.35em" }, child.text,
          s("title", {}, `${model.spell(child.token)} · log probability ${decimal(child.logProbability, 2)}, total ${decimal(child.total, 2)}`)));
        draw(child);
      }
    };
    draw(root);
    const [width, height] = [xs.at(-1) + 10, row * TREE_ROW + 10];
    return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${row} hypotheses; the best is: ${this.view.result.best.text}` }, links, labels);
  }
}

const kindOf = (node) => `${node.rank === 0 ? " best" : node.rank === undefined ? " dropped" : ""}${node.token === END ? " end" : ""}`;
