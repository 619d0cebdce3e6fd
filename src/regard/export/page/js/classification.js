// One classifier on the page: the probabilities of labels, and the words it read, which can be struck out.

import { h, isRightToLeft, percent } from "./dom.js";
import { PipelineView } from "./pipeline.js";
import { buildLabelPicture, recordOfLabels } from "./save.js";

const MOST_LABELS = 12;

export class ClassificationView {
  constructor(model, app) {
    Object.assign(this, { model, app, result: null, untouched: null });
    this.parts = {
      message: h("p", { class: "message", role: "alert" }),
      output: h("p", { class: "result", "aria-live": "polite" }),
      untouched: h("p", { class: "untouched" }),
      hint: h("p", { class: "hint" }, `The stronger the colour of a word, the larger its weight${model.settings.normalized ? "; the weights of all words sum to 100%" : ""}.`, " Click a word to strike it out: the model then reads the text without it, and a line marks each probability of before."),
      words: h("p", { class: "words", role: "group", "aria-label": "Words, coloured by their weight; click one to strike it out" }),
      labels: h("div", { class: "labels" }),
      note: h("p", { class: "note" }),
    };
    this.element = h("article", { class: "model", "aria-label": model.settings.name },
      h("h2", {}, model.settings.name), ...Object.values(this.parts));
    this.pipeline = new PipelineView(this);
    this.element.append(this.pipeline.element);
  }

  picture() {
    return buildLabelPicture(this);
  }

  forget() {}

  record() {
    return recordOfLabels(this);
  }

  get isTouched() {
    return this.app.dropped.size > 0;
  }

  async run(isStale) {
    const plain = await this.model.run({ text: this.app.text, units: this.app.units }, isStale);
    if (!plain) return;
    const found = this.isTouched ? await this.model.run({ text: this.app.text, dropped: this.app.dropped, units: this.app.units }, isStale) : plain;
    if (!found) return;
    [this.untouched, this.result] = [plain, found];
    this.draw();
  }

  draw() {
    const { parts, result, untouched } = this, names = this.model.settings.labels;
    if (!result) return;
    parts.message.textContent = result.empty ? "Type a text." : "";
    parts.hint.hidden = result.empty;
    parts.output.replaceChildren(h("span", { class: result.label === untouched.label ? null : "changed" }, result.label),
      h("span", { class: "share" }, ` ${percent(result.probabilities[result.order[0]])}`));
    parts.untouched.replaceChildren(...(this.isTouched ? [
      h("span", { class: "label" }, "With all words"),
      h("span", { class: "text" }, `${untouched.label} ${percent(untouched.probabilities[untouched.order[0]])}`),
      h("button", { type: "button", class: "quiet reset", onclick: () => (this.app.dropped.clear(), this.app.changed()) }, "Undo all"),
    ] : []));
    this.#drawWords();
    this.pipeline.element.hidden = result.empty;
    if (!result.empty) this.pipeline.draw();
    parts.labels.replaceChildren(...result.order.slice(0, MOST_LABELS).map((place) => h("div", { class: "bar" },
      h("span", { class: "name" }, names[place]),
      h("span", { class: "track", vars: { "--share": result.probabilities[place].toFixed(4), "--before": untouched.probabilities[place].toFixed(4) } },
        h("span", { class: "fill" }), this.isTouched ? h("span", { class: "before", title: `with all words: ${percent(untouched.probabilities[place])}` }) : null),
      h("span", { class: "share" }, percent(result.probabilities[place])))));
    const unknown = result.source.words.filter((_, place) => result.source.unknown[place]);
    parts.note.replaceChildren(
      unknown.length ? `Not in the vocabulary: ${unknown.join(", ")}. ` : "",
      result.cut ? `The model reads the first ${result.cut} tokens only. ` : "");
  }

  #drawWords() {
    const { source } = this.result, weights = this.model.wordWeights(this.result);
    const most = Math.max(...weights, 1e-9);
    this.parts.words.dir = isRightToLeft(source.text) ? "rtl" : "ltr";
    const focused = this.parts.words.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.parts.words.replaceChildren(...source.words.flatMap((text, place) => [h("button", {
      type: "button", class: `chip${source.unknown[place] ? " unknown" : ""}${source.dropped[place] ? " dropped" : ""}`, "data-key": `word-${place}`,
      "aria-pressed": source.dropped[place] ? "true" : "false", vars: { "--weight": (weights[place] / most).toFixed(3) },
      "aria-label": `${text}, weight ${percent(weights[place])}: ${source.dropped[place] ? "put it back" : "strike it out"}`,
      title: `weight ${percent(weights[place])} · click to ${source.dropped[place] ? "put it back" : "strike it out"}`,
      onclick: () => this.app.toggleWord(place),
    }, text), " "]));
    if (focused) [...this.parts.words.children].find((one) => one.dataset.key === focused)?.focus();
  }
}
