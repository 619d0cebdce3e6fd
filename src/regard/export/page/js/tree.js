// The beam as a tree: every hypothesis that the search has kept, from the start symbol to where it ended or was dropped.

import { decimal, h, s, shorten, widthOf } from "./dom.js";
import { END } from "./tokenizer.js";

const TREE_ROW = 24, COLUMN_GAP = 30, MOST_WIDTH = 120;
const MOST_STEPS = 12, MOST_TOKENS = 5; // a longer output is compacted; of more joined tokens, the middle is left out

/** The nodes of a tree with their children, from the steps of a search. */
export function buildTree(steps, hypotheses) {
  const root = { step: -1, children: [], token: null };
  let before = [root];
  const bySlot = [];
  steps.forEach((step, number) => {
    const nodes = step.chosen.map((one) => {
      const node = { step: number, token: one.token, logProbability: one.logProbability, total: one.total, ended: one.ended, children: [], parts: [one] };
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

/** The tree without dropped hypotheses, whose tokens up to the next branch are joined: one node for each part that differs. */
export function compactTree(node) {
  let [parts, last] = [node.parts, node];
  let children = node.children.filter((child) => child.rank !== undefined);
  while (parts && children.length === 1 && children[0].token !== END) {
    [last] = children;
    parts = [...parts, ...last.parts];
    children = last.children.filter((child) => child.rank !== undefined);
  }
  return { ...node, parts, total: last.total, children: children.map(compactTree) };
}

export class TreeView {
  constructor(view) {
    this.view = view;
    this.sheet = h("div", { class: "sheet scroll", tabindex: 0, role: "region", "aria-label": `Tree of the beam search of ${view.model.settings.name}` });
    this.list = h("ol", { class: "alternatives" });
    this.whole = h("input", { type: "checkbox" });
    this.choice = h("label", { class: "choice" }, this.whole, " show every token, and the hypotheses that the search dropped");
    this.element = h("details", { class: "tree" }, h("summary", {}, "The beam"), this.list, this.choice, this.sheet);
    for (const [element, event] of [[this.element, "toggle"], [this.whole, "change"]]) element.addEventListener(event, () => this.draw());
  }

  draw() {
    const { result } = this.view;
    if (!result?.best || !this.element.open) return;
    this.list.replaceChildren(...result.hypotheses.map((one) => h("li", { dir: "auto" },
      h("span", { class: "text" }, one.text), " ", h("span", { class: "share" }, `log probability ${decimal(one.logProbability, 2)}, score of the search ${decimal(one.score, 3)}${one.finished ? "" : ", cut"}`))));
    const root = buildTree(result.steps, result.hypotheses);
    const isLong = result.steps.length > MOST_STEPS;
    this.choice.hidden = !isLong;
    this.sheet.replaceChildren(this.#picture(isLong && !this.whole.checked ? compactTree(root) : root));
  }

  #picture(root) {
    const { model } = this.view;
    const font = `${getComputedStyle(this.sheet).fontSize} ${getComputedStyle(this.sheet).fontFamily}`;
    const widths = [];
    let row = 0;
    const place = (node, column) => {
      node.column = column;
      if (node.token !== null) {
        const spelled = node.parts.map((one) => model.spell(one.token));
        node.whole = spelled.join(spelled.some((text) => text.includes("␣")) ? "" : " ");
        const ends = spelled.length > MOST_TOKENS ? [spelled.slice(0, 2), ["…"], spelled.slice(-2)].flat().join(" ") : node.whole;
        node.text = shorten(ends, MOST_WIDTH * Math.min(spelled.length, 2), font);
        widths[column] = Math.max(widths[column] ?? 0, widthOf(node.text, font));
      }
      node.children.sort((a, b) => (a.rank ?? 99) - (b.rank ?? 99) || b.total - a.total).forEach((child) => place(child, column + 1));
      node.y = node.children.length ? node.children[0].y : row++;
    };
    place(root, -1);
    const xs = [14];
    widths.forEach((width, step) => (xs[step + 1] = xs[step] + width + COLUMN_GAP));
    const x = (node) => (node.column < 0 ? 0 : xs[node.column]);
    const right = (node) => (node.column < 0 ? 8 : x(node) + widthOf(node.text, font) + 5);
    const y = (node) => node.y * TREE_ROW + TREE_ROW / 2 + 4;
    const links = [], labels = [s("circle", { cx: 4, cy: y(root), r: 3, class: "root" })];
    const draw = (node) => {
      for (const child of node.children) {
        const [x1, y1, x2, y2] = [right(node), y(node), x(child) - 5, y(child)];
        const middle = (x1 + x2) / 2;
        links.push(s("path", { class: `link${kindOf(child)}`, d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}` }));
        labels.push(s("text", { class: `node${kindOf(child)}`, x: x(child), y: y(child), dy: "0.35em" }, child.text,
          s("title", {}, `${child.whole} · log probability ${decimal(child.parts.reduce((sum, one) => sum + one.logProbability, 0), 2)}, total ${decimal(child.total, 2)}`)));
        draw(child);
      }
    };
    draw(root);
    const [width, height] = [xs.at(-1) + 10, row * TREE_ROW + 10];
    return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${row} hypotheses; the best is: ${this.view.result.best.text}` }, links, labels);
  }
}

const kindOf = (node) => `${node.rank === 0 ? " best" : node.rank === undefined ? " dropped" : ""}${node.token === END ? " end" : ""}`;
