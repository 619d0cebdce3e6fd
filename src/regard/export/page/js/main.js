// The page: text, search and examples on top, one article for each model below.

import { readAddress, writeAddress } from "./address.js";
import { ClassificationView } from "./classification.js";
import { changedWords } from "./compare.js";
import { h } from "./dom.js";
import { startRuntime } from "./engine.js";
import { ClassifierModel, LanguageModel, TranslatorModel } from "./model.js";
import { download, renderPng } from "./save.js";
import { TranslationView } from "./translation.js";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

const KINDS = {
  translation: { Model: TranslatorModel, View: TranslationView, placeholder: "Type a sentence" },
  language: { Model: LanguageModel, View: TranslationView, placeholder: "Type the beginning of a text" },
  classification: { Model: ClassifierModel, View: ClassificationView, placeholder: "Type a text" },
};

class App {
  constructor() {
    this.text = data.examples[0] ?? "";
    this.dropped = new Set();
    this.beamSize = data.models[0].decoding?.beam_size ?? 1;
    this.units = "auto";
    this.kind = KINDS[data.models[0].task];
    document.body.dataset.task = data.models[0].task; // the style hides help for other tasks
    this.searches = Boolean(data.models[0].decoding);
    this.views = [];
    this.runs = 0;
    this.scrubbing = null; // the view whose time line was moved last
  }

  async start() {
    this.#drawControls();
    await startRuntime();
    const { Model, View } = this.kind;
    for (const [number, settings] of data.models.entries()) this.views.push(new View(await Model.open(number, settings), this));
    byId("models").replaceChildren(...this.views.map((view) => view.element));
    document.body.classList.add("ready");
    byId("state").textContent = "";
    new ResizeObserver(() => this.views.forEach((view) => view.draw())).observe(byId("models"));
    addEventListener("hashchange", () => location.hash !== this.address && this.#readAddress());
    await (this.#readAddress() ?? this.changed());
  }

  /** Show the state that the address describes. */
  #readAddress() {
    const said = readAddress(location.hash, data.models);
    if (!said) return null;
    Object.assign(this, { text: said.text, dropped: said.dropped, beamSize: said.beamSize ?? this.beamSize, units: said.units });
    byId("units").querySelector("select").value = said.units;
    byId("text").value = said.text;
    byId("search").querySelector("select").value = this.beamSize;
    this.views.forEach((view, number) => {
      view.forget();
      Object.assign(view, said.views[number]);
    });
    return this.changed();
  }

  #drawControls() {
    const field = byId("text");
    field.value = this.text;
    field.placeholder = this.kind.placeholder;
    field.addEventListener("input", () => this.setText(field.value));
    byId("examples").replaceChildren(...data.examples.map((example) => h("button", {
      type: "button", class: "example", title: example, dir: "auto", onclick: () => this.setText(example),
    }, example)));
    const search = byId("search");
    search.hidden = !this.searches;
    const own = data.models[0].decoding?.beam_size ?? 1;
    const widths = [...new Set([1, own, 5, 10])].sort((a, b) => a - b);
    search.querySelector("select").replaceChildren(...widths.map((width) =>
      h("option", { value: width, selected: width === this.beamSize }, width === 1 ? "greedy" : `beam of ${width}`)));
    search.querySelector("select").addEventListener("change", (event) => {
      this.beamSize = Number(event.target.value);
      this.changed();
    });
    const spells = data.models.some((one) => [one.source, one.target].some((side) => side?.kind === "characters"));
    const units = byId("units").querySelector("select");
    units.replaceChildren(...[["auto", spells ? "characters" : "words"], ...(spells ? [["words", "words"]] : []), ["tokens", "tokens"]]
      .map(([value, name]) => h("option", { value }, name)));
    units.addEventListener("change", () => this.setUnits(units.value));
  }

  /** Show characters, words or tokens. Words that were left out, chosen or selected are reset, because they have the old units. */
  setUnits(units) {
    this.units = units;
    return this.setText(this.text);
  }

  setText(text) {
    if (byId("text").value !== text) byId("text").value = text;
    this.text = text;
    this.dropped.clear();
    for (const view of this.views) view.forget();
    return this.changed();
  }

  toggleWord(word) {
    this.dropped.has(word) ? this.dropped.delete(word) : this.dropped.add(word);
    return this.changed();
  }

  /** Run the models again, and discard the results of runs for an earlier state. */
  async changed({ again = true } = {}) {
    for (const example of byId("examples").children) example.setAttribute("aria-pressed", String(example.textContent === this.text));
    this.#writeAddress();
    if (!again) return;
    const number = ++this.runs;
    const isStale = () => number !== this.runs;
    for (const view of this.views) if (!isStale()) await view.run(isStale);
    if (isStale()) return;
    if (this.views.length > 1) this.views.forEach((view) => view.draw()); // now the outputs can be compared
    this.#writeAddress();
    this.readyAt ??= performance.now(); // since the page was opened; benchmarks read it
    document.body.dataset.runs = number; // tests wait for it
  }

  #writeAddress() {
    this.address = writeAddress(this);
    try {
      history.replaceState(null, "", this.address);
    } catch {
      // Some browsers forbid such changes, or limit their number per second. The address then stays as it was.
    }
  }

  /** Return which words of a view's output are not in the output of the model beside it. */
  differences(view) {
    const other = this.views.find((one) => one !== view && one.result?.best);
    return other ? changedWords(view.result.best.words, other.result.best.words) : [];
  }
}

/** Draw the buttons that save the view, and the information about the models. */
function drawFooter(app) {
  const name = (view, ending) => `${view.model.settings.name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.${ending}`;
  const each = (action) => () => Promise.all(app.views.filter((view) => view.result && !view.result.empty).map(action));
  const svg = (view) => new XMLSerializer().serializeToString(view.picture());
  const actions = [
    ["Copy link", async (event) => {
      const button = event.currentTarget;
      await navigator.clipboard.writeText(location.href).catch(() => prompt("The address of this view", location.href));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy link"), 1500);
    }],
    ["PNG", each(async (view) => download(name(view, "png"), await renderPng(view.picture())))],
    ["SVG", each((view) => download(name(view, "svg"), new Blob([svg(view)], { type: "image/svg+xml" })))],
    ["JSON", each((view) => download(name(view, "json"), new Blob([JSON.stringify(view.record())], { type: "application/json" })))],
  ];
  byId("save").replaceChildren(...actions.map(([label, action]) =>
    h("button", { type: "button", title: label.length === 3 || label === "JSON" ? `Save this view as ${label}` : "Copy the address of this view", onclick: action }, label)));
  byId("honest").textContent = data.models.find((one) => one.faithfulness)?.faithfulness || data.models[0].note;
  byId("about").append(...data.models.map((model) => h("details", {},
    h("summary", {}, `Model card of ${model.name}`),
    h("pre", { class: "card", tabindex: 0, role: "region", "aria-label": `Model card of ${model.name}` }, model.card))),
  h("details", {}, h("summary", {}, `Licence of ${data.onnxruntime.package} ${data.onnxruntime.version}`),
    h("pre", { class: "card", tabindex: 0, role: "region", "aria-label": "Licence" }, data.onnxruntime.license_text)));
  byId("made").textContent = `Made with regard ${data.regard}. The model runs in this page; nothing that you type leaves it.`;
}

async function open() {
  const missing = [
    ["WebAssembly", typeof WebAssembly !== "undefined"], ["DecompressionStream", typeof DecompressionStream !== "undefined"],
  ].filter(([, there]) => !there).map(([name]) => name);
  if (missing.length) {
    throw new Error(`this browser has no ${missing.join(" and no ")}; open the page in a current Chrome, Edge, Firefox or Safari`);
  }
  globalThis.regard = new App();
  drawFooter(globalThis.regard);
  await globalThis.regard.start();
}

open().catch((error) => {
  byId("state").textContent = `The page cannot start: ${error.message}.`;
  byId("state").classList.add("failed");
  console.error(error);
});
