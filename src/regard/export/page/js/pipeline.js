// How a text becomes the output, in five stages: text, tokens, states, attention, words. Each stage opens to its formula and its data.

import { drawToken, h, percent } from "./dom.js";
import { LanguageModel } from "./model.js";

const LARGEST_SHOWN = 3; // weights and candidates in a sentence
const FIRST_TOKENS = 40;

/** The score of each mechanism; `x_y` is x with the index y. Names are those of `--model.decoder.attention.kind`. */
export const SCORES = {
  additive: "v · tanh(W_q q_t + W_k k_j)", concat: "v · tanh(W [q_t; k_j])", sum_concat: "v · tanh(W (q_t + k_j))",
  weight_norm_additive: "g v/‖v‖ · tanh(W_q q_t + W_k k_j + b)", dot: "q_t · k_j", general: "k_j · (W q_t)",
  cosine: "g q_t · k_j / (‖q_t‖ ‖k_j‖)", trilinear: "w · [q_t; k_j; q_t∘k_j]", linear: "w · [q_t; k_j] + b",
  self_attention: "(W_q q_t) · (W_k k_j) / √D", multi_head: "(W_q q_t)_h · (W_k k_j)_h / √(D/H)",
  location_sensitive: "v · tanh(W_q q_t + W_k k_j + U f_tj + b)", coverage: "v · tanh(W_q q_t + W_k k_j + w_c c_tj + b)",
  fertility_coverage: "v · tanh(W_q q_t + W_k k_j + w_c c_tj/Φ_j)", local_monotonic: "k_j · (W q_t), near place t",
  local_predictive: "k_j · (W q_t), near a predicted place",
};
const POOLED = {
  linear: "w · h_j + b", additive: "v · tanh(W h_j + b)", gated: "v · (tanh(W h_j) ⊙ σ(U h_j))", multi_head: "v_h · tanh(W h_j)",
  mean: "0",
};

/** Draw a formula: an index after "_" is set lower. */
const formula = (text) => h("span", { class: "formula" }, text.split(/(_\w)/).map((part) =>
  (/^_\w$/.test(part) ? h("sub", {}, part.slice(1)) : part)));

const largest = (weights, names) => weights.map((weight, place) => [weight, names[place]])
  .sort((one, other) => other[0] - one[0]).slice(0, LARGEST_SHOWN).map(([weight, name]) => `“${name}” ${percent(weight)}`).join(", ");

/** The formula of the weights; the mean, which has no normalizer, is a softmax of zeros. */
const weightsOfScores = ({ kind } = { kind: "softmax" }) => `weight_j = ${kind === "sigmoid" ? "σ(score_j)" : `${kind} of the scores over j`}`;

/** How scores become weights and weights an average: a sentence for models whose weights sum to one, and for others. */
const describeWeights = ({ normalized }, context, values) => (normalized
  ? `The scores become weights, which sum to 100%. ${context} is the mean of ${values} by these weights.`
  : `The scores become weights. ${context} is the sum of ${values}, each times its weight.`);

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** What the encoder computes, by the kind of model. */
function describeStates({ settings }) {
  const { kind, encoder = settings.model, num_heads: heads } = settings.model;
  const layers = settings.model.encoder_layers ?? encoder.num_layers ?? 1;
  if (kind === "transformer") {
    return {
      sentence: `${count(layers, "layer")} of self-attention with ${count(heads, "head")} turn each token into a vector that depends on all other tokens${settings.source || settings.labels ? "" : " before it"}.`,
      lines: ["x_j = E[token_j], with its position", "x ← x + MultiHead(norm(x)), x ← x + FeedForward(norm(x)), in each layer"],
    };
  }
  if (!encoder.cell) return { sentence: "Each word and each pair of neighbours has a vector of its own; no order beyond it is read.", lines: ["h_j = E[token_j]"] };
  const cell = encoder.cell.toUpperCase();
  return encoder.bidirectional === false
    ? { sentence: `A ${cell} reads the text from left to right and keeps a state for each token.`, lines: [`h_j = ${cell}(E[token_j], h before j)`] }
    : { sentence: `A ${cell} reads the text from left to right, another one from right to left. The two states of a token are joined.`, lines: [`h_j = [${cell}(E[token_j], state before j); ${cell}(E[token_j], state after j)]`] };
}

export class PipelineView {
  constructor(view) {
    this.view = view;
    this.open = null; // the name of a stage
    this.strip = h("div", { class: "strip", role: "group", "aria-label": "From text to output; each stage opens to its formula" });
    this.panel = h("div", { class: "panel", id: `stage-${view.model.settings.name}` });
    this.element = h("section", { class: "pipeline" }, this.strip, this.panel);
  }

  draw() {
    const stages = this.#stages(), focused = this.strip.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.strip.replaceChildren(...stages.flatMap(({ name, value }, place) => [
      place ? h("span", { class: "arrow", "aria-hidden": "true" }, "→") : null,
      h("button", {
        type: "button", class: "stage", "data-key": `stage-${name}`, "aria-expanded": String(this.open === name), "aria-controls": this.panel.id,
        onclick: () => { this.open = this.open === name ? null : name; this.draw(); },
      }, h("span", { class: "name" }, name), " ", h("span", { class: "value" }, value)),
    ]).filter(Boolean));
    if (focused) [...this.strip.children].find((one) => one.dataset.key === focused)?.focus({ preventScroll: true });
    const shown = stages.find(({ name }) => name === this.open);
    this.panel.hidden = !shown;
    this.panel.replaceChildren(...(shown ? [h("p", {}, shown.sentence), ...shown.lines.map((line) => h("p", {}, formula(line))), shown.data ?? ""] : []));
  }

  #stages() {
    const { view } = this, { model, result } = view, { settings } = model, reader = settings.source ?? settings.target;
    const { source } = result, tokens = result.cut === undefined ? source.tokens : source.tokens.slice(0, result.cut ?? undefined);
    const unit = { words: "words", whitespace: "words", characters: "characters" }[reader.kind] ?? "pieces of words";
    const states = describeStates(model);
    return [
      {
        name: "Text", value: count([...source.text].length, "character"), lines: [],
        sentence: `The text is read as it was typed${reader.lowercase ? ", in lower case" : ""}${reader.normalization && reader.normalization !== "none" ? `, in the Unicode form ${reader.normalization.toUpperCase()}` : ""}.`,
      },
      {
        name: "Tokens", value: count(tokens.length, "token"),
        sentence: `The text is cut into ${unit}. Each is one of ${reader.tokens.length.toLocaleString("en")} tokens that the model knows, and each token has a vector. <unk> stands for all others.`,
        lines: ["x_j = E[token_j]"],
        data: h("p", { class: "tokens", dir: "auto" }, tokens.slice(0, FIRST_TOKENS).map((id) => [h("span", { title: `number ${id}` }, drawToken(reader.tokens[id])), " "]), tokens.length > FIRST_TOKENS ? "…" : ""),
      },
      { name: "States", value: count(tokens.length, "vector"), ...states },
      ...(settings.labels ? this.#labelStages() : this.#outputStages()),
    ];
  }

  #outputStages() {
    const { view } = this, { model, result } = view, { settings } = model, { best } = result;
    const step = view.shownStep, shown = view.view(), row = best.wordOf[step] ?? -1;
    const { kind, normalizer } = settings.model.decoder?.attention ?? settings.model.cross_attention ?? { kind: "multi_head", normalizer: settings.model.normalizer };
    const word = model.spell(best.path[step].token);
    const weights = row < 0 ? "" : ` Here, “${shown.output[row].text}” reads ${largest(shown.matrix[row].map((weight) => weight ?? 0), shown.source.map((one) => one.text))}.`;
    const candidates = largest(best.path[step].candidates.map((one) => Math.exp(one.logProbability)), best.path[step].candidates.map((one) => model.spell(one.token)));
    return [
      {
        name: "Attention", value: settings.layers ? `${count(settings.layers, "layer")} × ${count(settings.heads, "head")}` : kind.replaceAll("_", " "),
        sentence: `For each word that it writes, the decoder compares its query qₜ with the key kⱼ of each ${model instanceof LanguageModel ? "token so far" : "source token"}. ${describeWeights(settings, "The context", "the values vⱼ")}${weights}`,
        lines: [...(SCORES[kind] ? [`score_j = ${SCORES[kind]}`, weightsOfScores(normalizer)] : []), "context = Σ_j weight_j v_j"],
      },
      {
        name: "Words", value: count(best.words.length, "word"),
        sentence: `From the context and its own state, the decoder gives every token of its vocabulary a probability. At “${word}”: ${candidates}. ${view.app.beamSize > 1 ? `The search keeps the best ${view.app.beamSize} beginnings at each step (a beam), and shows the best whole output.` : "The search takes the most probable token at each step."}`,
        lines: ["probability of a token = softmax(W [state; context] + b)"],
      },
    ];
  }

  #labelStages() {
    const { model, result } = this.view, { settings } = model;
    const { kind, normalizer } = (settings.model.recurrent ?? settings.model).pooling;
    return [
      {
        name: "Attention", value: kind.replaceAll("_", " "),
        sentence: `The model gives each token a score. ${describeWeights(settings, "The text", "its states")} The largest: ${largest([...model.wordWeights(result)], result.source.words)}.`,
        lines: [`score_j = ${POOLED[kind]}`, weightsOfScores(normalizer), "context = Σ_j weight_j h_j"],
      },
      {
        name: "Label", value: result.label, lines: [`probability of a label = ${settings.multiple ? "σ" : "softmax"}(W context + b)`],
        sentence: `A linear map of the context gives each of ${count(settings.labels.length, "label")} a probability.`,
      },
    ];
  }
}
