// The page: text, search and examples on top, one article for each model below.

import { ClassificationView } from "./classification.js";
import { h } from "./dom.js";
import { startRuntime } from "./engine.js";
import { ClassifierModel, TranslatorModel } from "./model.js";
import { TranslationView } from "./translation.js";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

class App {
  constructor() {
    this.text = data.examples[0] ?? "";
    this.dropped = new Set();
    this.beamSize = data.models[0].decoding?.beam_size ?? 1;
    this.translates = data.models[0].task === "translation";
    this.views = [];
    this.runs = 0;
    this.ready = new Promise((resolve) => (this.tellReady = resolve));
  }

  async start() {
    this.#drawControls();
    await startRuntime();
    const [Model, View] = this.translates ? [TranslatorModel, TranslationView] : [ClassifierModel, ClassificationView];
    for (const [number, settings] of data.models.entries()) this.views.push(new View(await Model.open(number, settings), this));
    byId("models").replaceChildren(...this.views.map((view) => view.element));
    document.body.classList.add("ready");
    byId("state").textContent = "";
    new ResizeObserver(() => this.views.forEach((view) => view.draw())).observe(byId("models"));
    await this.changed();
    this.tellReady();
  }

  #drawControls() {
    const field = byId("text");
    field.value = this.text;
    field.placeholder = this.translates ? "Type a sentence" : "Type a text";
    field.addEventListener("input", () => this.setText(field.value));
    byId("examples").replaceChildren(...data.examples.map((example) => h("button", {
      type: "button", class: "example", dir: "auto", onclick: () => this.setText(example),
    }, example)));
    const search = byId("search");
    search.hidden = !this.translates;
    const own = data.models[0].decoding?.beam_size ?? 1;
    const widths = [...new Set([1, own, 5])].sort((a, b) => a - b);
    search.querySelector("select").replaceChildren(...widths.map((width) =>
      h("option", { value: width, selected: width === this.beamSize }, width === 1 ? "greedy" : `beam of ${width}`)));
    search.querySelector("select").addEventListener("change", (event) => {
      this.beamSize = Number(event.target.value);
      this.changed();
    });
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

  /** Run the models again, and drop whatever still runs for an earlier state. */
  async changed({ again = true } = {}) {
    for (const example of byId("examples").children) example.setAttribute("aria-pressed", String(example.textContent === this.text));
    if (!again) return;
    const number = ++this.runs;
    const isStale = () => number !== this.runs;
    for (const view of this.views) if (!isStale()) await view.run(isStale);
    if (!isStale()) document.body.dataset.runs = number; // tests wait for it
  }
}

async function open() {
  const missing = [
    ["WebAssembly", typeof WebAssembly !== "undefined"], ["DecompressionStream", typeof DecompressionStream !== "undefined"],
  ].filter(([, there]) => !there).map(([name]) => name);
  if (missing.length) {
    throw new Error(`this browser has no ${missing.join(" and no ")}; open the page in a current Chrome, Edge, Firefox or Safari`);
  }
  globalThis.regard = new App();
  await globalThis.regard.start();
}

open().catch((error) => {
  byId("state").textContent = `The page cannot start: ${error.message}.`;
  byId("state").classList.add("failed");
  console.error(error);
});
