// One translator or language model on the page: its output, its attention, and what was changed by hand.

import { BandsView } from "./bands.js";
import { changedWords } from "./compare.js";
import { h, isRightToLeft, percent } from "./dom.js";
import { attendTo, changeWeight, erase, flatten, moveWeight, sharpen } from "./edits.js";
import { MatrixView } from "./matrix.js";
import { HeadsView } from "./heads.js";
import { byWord, PageError } from "./model.js";
import { PipelineView } from "./pipeline.js";
import { buildPicture, recordOf, recordOfText } from "./save.js";
import { leastSure, StepsView } from "./steps.js";
import { END } from "./tokenizer.js";
import { TreeView } from "./tree.js";

const MAIN_SITE = { layer: null, head: null };

export class TranslationView {
  /** app: text, dropped, beamSize, changed() to be called after a change of the view's own state. */
  constructor(model, app) {
    Object.assign(this, { model, app, result: null, untouched: null, before: null });
    this.forget();
    const actions = {
      select: (row) => this.selectRow(row),
      toggle: model.settings.source ? (word) => app.toggleWord(word) : null,
      move: (row, from, to) => this.#drag(row, from, to),
      drop: () => this.#endDrag(true),
      cancel: () => this.#endDrag(false),
      attendTo: (row, word) => this.edit(row, (weights) => attendTo(weights, this.#wordOf(), word)),
      change: (row, word, amount) => this.edit(row, (weights) => changeWeight(weights, this.#wordOf(), word, amount)),
      key: (event, row) => this.#key(event, row),
    };
    this.bands = new BandsView(actions);
    this.matrix = new MatrixView(actions);
    this.parts = {
      message: h("p", { class: "message", role: "alert" }),
      output: h("p", { class: "result", "aria-live": "polite" }),
      facts: h("p", { class: "facts" }),
      untouched: h("p", { class: "untouched" }),
      tools: h("div", { class: "tools", role: "toolbar", "aria-label": "Change the attention of the selected word" }),
      note: h("p", { class: "note" }),
    };
    this.element = h("article", { class: "model", "aria-label": model.settings.name },
      h("h2", {}, model.settings.name),
      this.parts.message, this.parts.output, this.parts.facts, this.parts.untouched,
      this.body = h("div", { class: "body" },
        h("div", { class: "figure" }, h("div", { class: "sheet" }, this.bands.svg), this.matrix.element),
        this.parts.tools, this.parts.note, this.#buildGuide()));
    this.further = [new PipelineView(this), new StepsView(this), ...(model.settings.layers ? [new HeadsView(this)] : []), new TreeView(this)];
    this.body.append(...this.further.map((part) => part.element), ...(model.settings.source ? [this.#buildForce()] : []));
  }

  /** What the figure shows, and a legend of its marks. */
  #buildGuide() {
    const mark = (kind, sample, meaning) => h("span", { class: `mark ${kind}` }, h("span", { class: "sample", "aria-hidden": "true" }, sample), meaning);
    return h("div", { class: "guide" },
      h("p", {}, this.model.words.guide, this.model.settings.normalized ? ` ${this.model.words.sum}` : null),
      h("p", { class: "legend" },
        mark("scale", "", "weight 0 to 100%"), mark("edited", "●", "attention changed by hand"), mark("changed", "word", "changed by you"),
        mark("unknown", "word", "not in the vocabulary"), this.model.settings.source ? mark("dropped", "word", "left out") : null));
  }

  /** A field for a whole target that the model has to write. */
  #buildForce() {
    const field = h("input", { type: "text", class: "force", "aria-label": "Target that the model has to write", dir: "auto" });
    const submit = (event) => {
      event.preventDefault();
      this.force(field.value);
    };
    return h("details", { class: "forcing" }, h("summary", {}, "Force a target"),
      h("form", { onsubmit: submit }, h("p", { class: "hint" }, "See how probable the model finds your own translation, and which words it reads when it writes this translation."),
        field, h("button", {}, "Force")));
  }

  /** Make the model write a given text; with an empty text, it writes its own again. */
  force(text) {
    const { ids } = this.model.target.encode(text);
    this.prefix = ids.length ? [...ids, END] : [];
    this.step = null;
    this.app.changed();
  }

  /** Select a step of the decoding. */
  goTo(step) {
    this.step = step;
    this.draw();
    this.app.changed({ again: false });
  }

  /** Write another word at a step, and continue from there. */
  choose(step, token) {
    this.prefix = [...this.result.best.path.slice(0, step).map((one) => one.token), token];
    this.step = step;
    this.app.changed();
  }

  /** Show another layer or head. */
  showSite(site) {
    this.site = site;
    this.draw();
    this.app.changed({ again: false });
  }

  picture() {
    return buildPicture(this);
  }

  record() {
    return this.model.settings.source ? recordOf(this) : recordOfText(this);
  }

  /** Forget everything that belongs to the previous text. */
  forget() {
    Object.assign(this, { edits: new Map(), prefix: [], step: null, site: this.site ?? MAIN_SITE });
    if (this.app.scrubbing === this) this.app.scrubbing = null;
  }

  /** Translate again; stale results are dropped. */
  async run(isStale) {
    const asked = { text: this.app.text, dropped: this.app.dropped, beamSize: this.app.beamSize, units: this.app.units };
    try {
      if (this.isTouched || !this.untouched || this.untouchedKey !== this.#key0()) {
        const plain = await this.model.run({ text: asked.text, beamSize: asked.beamSize, units: asked.units }, isStale);
        if (!plain) return;
        [this.untouched, this.untouchedKey] = [plain, this.#key0()];
      }
      const found = this.isTouched
        ? await this.model.run({ ...asked, prefix: this.prefix, edits: this.edits }, isStale) : this.untouched;
      if (!found) return;
      this.result = found;
      this.error = "";
    } catch (error) {
      if (!(error instanceof PageError)) throw error;
      [this.result, this.error] = [null, error.message];
    }
    this.draw();
  }

  #key0() {
    return `${this.app.units} ${this.app.beamSize} ${this.app.text}`;
  }

  /** Whether the user has changed weights, chosen words, or left words out. */
  get isTouched() {
    return this.edits.size > 0 || this.prefix.length > 0 || this.app.dropped.size > 0;
  }

  #wordOf() {
    return this.result.source.wordOf;
  }

  /** The steps that wrote a word of the output. */
  stepsOf(row) {
    return this.result.best.wordOf.map((_, step) => step).filter((step) => this.result.best.wordOf[step] === row);
  }

  /** The step whose candidates are shown: the selected one, or the one at which the model was least sure. */
  get shownStep() {
    return this.step ?? leastSure(this.result.best.path, this.result.numGiven);
  }

  get selectedRow() {
    const row = this.step === null || !this.result?.best ? -1 : this.result.best.wordOf[this.step] ?? -1;
    return row < 0 ? null : row;
  }

  selectRow(row) {
    this.step = row === this.selectedRow && !this.bands.drag ? null : this.stepsOf(row)[0];
    this.app.scrubbing = null;
    this.draw();
    this.app.changed({ again: false });
  }

  /** Change the weights of a word's steps by a function, and decode again. */
  edit(row, change, basis = this.result) {
    for (const step of this.stepsOf(row)) {
      if (!basis.best.path[step]) continue;
      const weights = change(this.model.weightsAt(basis.best.path[step], this.site));
      if (weights) this.edits.set(step, { weights, ...this.site });
    }
    this.step = this.stepsOf(row)[0] ?? this.step;
    this.app.changed();
  }

  resetRow(row) {
    for (const step of this.stepsOf(row)) this.edits.delete(step);
    this.app.changed();
  }

  resetAll() {
    this.edits.clear();
    this.prefix = [];
    this.app.dropped.clear();
    this.app.changed();
  }

  /** While a band is dragged, show the output for the word under the pointer; each move starts from the original weights. */
  #drag(row, from, to) {
    this.before ??= { result: this.result, edits: new Map(this.edits), steps: this.stepsOf(row) };
    this.edits = new Map(this.before.edits);
    if (to !== from) {
      const { source, best } = this.before.result;
      for (const step of this.before.steps) {
        const weights = moveWeight(this.model.weightsAt(best.path[step], this.site), source.wordOf, from, to);
        if (weights) this.edits.set(step, { weights, ...this.site });
      }
    }
    this.app.changed();
  }

  #endDrag(kept) {
    if (!kept && this.before) this.edits = this.before.edits;
    this.before = null;
    this.app.changed();
  }

  #key(event, row = this.selectedRow) {
    const keys = { s: sharpen, f: flatten, e: erase };
    if (row === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (keys[event.key]) this.edit(row, keys[event.key]);
    else if (event.key === "r") this.resetRow(row);
    else return;
    event.preventDefault();
  }

  /** What the figure shows: words with their marks, and weights by word. */
  view() {
    const { source, best, numGiven } = this.result;
    const edited = new Set([...this.edits.keys()].map((step) => best.wordOf[step]));
    const changed = this.isTouched && this.untouched?.best ? changedWords(best.words, this.untouched.best.words) : [];
    const differs = this.app.differences?.(this) ?? [];
    const weights = best.path.map((step) => this.model.weightsAt(step, this.site));
    const perStep = weights.map((one) => byWord(one, source.wordOf, source.words.length));
    const first = source.words.map((_, column) => source.wordOf.indexOf(column));
    const matrix = best.words.map((_, row) => {
      const steps = this.stepsOf(row);
      return source.words.map((_, column) => (steps.every((step) => first[column] >= weights[step].length)
        ? null : steps.reduce((sum, step) => sum + perStep[step].row[column], 0) / steps.length));
    });
    const hidden = best.words.map((_, row) => {
      const steps = this.stepsOf(row);
      return steps.reduce((sum, step) => sum + perStep[step].hidden, 0) / (steps.length || 1);
    });
    return {
      source: source.words.map((text, place) => ({ text, unknown: source.unknown[place], dropped: source.dropped[place] })),
      output: best.words.map((text, row) => ({ text, typed: this.stepsOf(row).every((step) => step < numGiven), changed: changed[row], differs: differs[row], edited: edited.has(row) })),
      matrix, hidden, selected: this.selectedRow,
      resting: this.isTouched && this.untouched?.best ? this.untouched.best.words : best.words,
      upTo: this.app.scrubbing === this && this.step !== null ? (this.selectedRow ?? best.words.length - 1) + 1 : best.words.length,
    };
  }

  draw() {
    const { parts, result } = this;
    parts.message.textContent = this.error;
    this.body.hidden = Boolean(this.error) || !result || Boolean(result.empty);
    if (this.step !== null && result?.best && this.step >= result.best.path.length) this.step = null;
    if (this.error || !result || result.empty) {
      for (const part of [parts.output, parts.untouched, parts.facts]) part.replaceChildren();
      if (result?.empty) parts.message.textContent = this.app.text.trim() ? "Every word is left out." : "";
      return;
    }
    const view = this.view(), { best } = result;
    parts.output.dir = isRightToLeft(best.text) ? "rtl" : "ltr";
    parts.output.lang = this.model.settings.target.lang;
    this.#drawOutput(view);
    this.#drawUntouched(view);
    parts.facts.replaceChildren(
      this.model.score(best), best.finished ? "" : " · cut at the length limit");
    this.bands.draw(view);
    this.matrix.draw(view, `Attention of ${this.model.settings.name}: ${this.model.words.caption}`);
    this.#drawTools(view);
    this.#drawNote(view);
    for (const part of this.further) part.draw();
  }

  #drawOutput(view) {
    // Draw the text of the output, and mark the words that are found in it.
    const nodes = [];
    let rest = this.result.best.text;
    view.output.forEach((word, row) => {
      const at = rest.indexOf(word.text);
      if (at < 0) return;
      const kinds = `${word.typed ? "typed " : ""}${word.changed ? "changed " : ""}${word.differs ? "differs " : ""}${row === view.selected ? "selected" : ""}`;
      nodes.push(rest.slice(0, at), h("span", { class: kinds.trim() || null }, word.text));
      rest = rest.slice(at + word.text.length);
    });
    this.#fit([...nodes, rest]);
  }

  /** Draw the output. A changed one gets the height of the model's own, in smaller letters if it is longer, so that the figure stays in place. */
  #fit(nodes) {
    const { output } = this.parts;
    Object.assign(output.style, { minHeight: "", maxHeight: "", fontSize: "" });
    if (this.isTouched && this.untouched?.best) {
      output.replaceChildren(this.untouched.best.text);
      output.style.minHeight = output.style.maxHeight = `${output.getBoundingClientRect().height}px`;
    }
    output.replaceChildren(...nodes);
    for (let size = 100; size > 50 && output.style.maxHeight && output.scrollHeight > output.offsetHeight; size -= 5) output.style.fontSize = `${size}%`;
  }

  #drawUntouched() {
    const { best } = this.untouched ?? {};
    if (!this.isTouched || !best) return this.parts.untouched.replaceChildren();
    const same = best.text === this.result.best.text;
    const reasons = [
      this.edits.size && "changed attention", this.prefix.length && "chosen words", this.app.dropped.size && "words left out",
    ].filter(Boolean).join(", ");
    this.parts.untouched.replaceChildren(
      h("span", { class: "label" }, same ? `The same output as without ${reasons}` : `Without ${reasons}`),
      same ? "" : h("span", { class: "text", dir: "auto" }, best.text),
      h("button", { type: "button", class: "quiet reset", onclick: () => this.resetAll() }, "Undo all"));
  }

  #drawTools(view) {
    const row = view.selected;
    const word = row === null ? "" : view.output[row].text;
    const button = (label, key, title, action) => h("button", {
      type: "button", disabled: row === null, title: `${title} (key ${key})`, "data-key": `tool-${label}`, onclick: action,
    }, label);
    const tools = [
      h("span", { class: "label" }, row === null ? this.model.words.advice : ["Attention of ", h("b", {}, word)]),
      button("Sharpen", "s", "Make large weights larger", () => this.edit(row, sharpen)),
      button("Flatten", "f", "Give every word the same weight", () => this.edit(row, flatten)),
      button("Erase", "e", "Attend to nothing", () => this.edit(row, erase)),
      h("button", {
        type: "button", disabled: row === null || !view.output[row].edited, title: "Use the model's own attention again (key r)",
        "data-key": "tool-Reset", onclick: () => this.resetRow(row),
      }, "Reset"),
    ];
    const focused = this.parts.tools.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.parts.tools.replaceChildren(...tools);
    if (focused) [...this.parts.tools.children].find((one) => one.dataset.key === focused)?.focus();
  }

  #drawNote(view) {
    const mean = view.hidden.reduce((a, b) => a + b, 0) / (view.hidden.length || 1);
    const unknown = view.source.filter((word) => word.unknown).map((word) => word.text);
    const notes = [];
    if (unknown.length) notes.push(`Not in the vocabulary: ${unknown.join(", ")}. `);
    const share = view.selected === null ? mean : view.hidden[view.selected];
    if (share >= 0.005) {
      notes.push(`${percent(share)} of the weight${view.selected === null ? "" : " of this word"} is on the ${this.model.words.hidden} symbol, which is not drawn.`);
    }
    this.parts.note.replaceChildren(...notes);
  }
}
