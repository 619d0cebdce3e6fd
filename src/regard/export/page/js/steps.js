// Decoding step by step: a time line of the output, and the candidates of the selected step with their probabilities.

import { drawToken, h, percent } from "./dom.js";
import { END } from "./tokenizer.js";

const SHOWN_CANDIDATES = 8;

/** The step at which the model was least sure, which is selected first; words that the user typed are skipped. */
export const leastSure = (path, first) =>
  path.reduce((best, one, place) => (place > first && one.logProbability < path[best].logProbability ? place : best), Math.min(first, path.length - 1));

export class StepsView {
  constructor(view) {
    this.view = view;
    this.slider = h("input", {
      type: "range", min: 0, class: "slider", "aria-label": "Step of the decoding", oninput: () => this.#scrub(Number(this.slider.value)),
    });
    this.line = h("div", { class: "line", role: "group", "aria-label": "Steps of the decoding" });
    this.candidates = h("div", { class: "candidates", role: "group", "aria-label": "Candidates of the selected step" });
    this.element = h("section", { class: "steps" },
      h("div", {},
        h("h3", {}, "Step by step"),
        h("p", { class: "hint" }, "Move through the output. Choose a different word, and the model continues from there."),
        this.slider, this.line),
      this.candidates);
  }

  #scrub(step) {
    this.view.app.scrubbing = this.view;
    this.view.goTo(step);
  }

  draw() {
    const { view } = this, { path } = view.result.best, { model } = view;
    const step = view.shownStep;
    this.slider.max = path.length - 1;
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", `step ${step + 1} of ${path.length}: ${model.spell(path[step].token)}`);
    const focused = [this.line, this.candidates].find((one) => one.contains(document.activeElement))
      ? document.activeElement.dataset.key : null;
    this.line.replaceChildren(...path.map((one, place) => h("button", {
      type: "button", "data-key": `step-${place}`, onclick: () => this.#scrub(place),
      class: `step${one.token === END ? " end" : ""}${place < view.prefix.length ? " chosen" : place < view.result.numGiven ? " typed" : ""}${view.edits.has(place) ? " edited" : ""}`,
      "aria-current": place === step ? "step" : null, vars: { "--share": Math.exp(one.logProbability).toFixed(3) },
      title: `${model.spell(one.token)}: ${percent(Math.exp(one.logProbability))}${place < view.prefix.length ? " · chosen" : ""}`,
    }, drawToken(model.spell(one.token)))));
    this.#drawCandidates(path, step);
    if (focused) [...this.element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
  }

  #drawCandidates(path, step) {
    const { model } = this.view, chosen = path[step].token;
    let shown = path[step].candidates.slice(0, SHOWN_CANDIDATES);
    if (!shown.some((one) => one.token === chosen)) shown = [...shown.slice(0, -1), { token: chosen, logProbability: path[step].logProbability }];
    this.candidates.replaceChildren(
      h("p", { class: "label" }, `Candidates for step ${step + 1}`),
      ...shown.map(({ token, logProbability }, place) => {
        const share = Math.exp(logProbability);
        return h("button", {
            type: "button", class: `candidate${token === chosen ? " is" : ""}${token === END ? " end" : ""}`, "data-key": `candidate-${place}`,
            "aria-pressed": token === chosen ? "true" : "false", title: `Write ${model.spell(token)} here and continue`,
            onclick: () => this.view.choose(step, token),
          },
          h("span", { class: "name" }, drawToken(model.spell(token))),
          h("span", { class: "track", vars: { "--share": share.toFixed(4) } }, h("span", { class: "fill" })),
          h("span", { class: "share" }, percent(share)));
      }));
  }
}
