// A model with its tokenizers: text in, plain results out, which the views draw.

import { ClassifierEngine, TranslatorEngine } from "./engine.js";
import { lengthLimit, search } from "./search.js";
import { END, Tokenizer, UNKNOWN } from "./tokenizer.js";

/** A mistake that the user can repair; its message is shown. */
export class PageError extends Error {}

/** Encode a text without the words that are left out. */
function readSource(tokenizer, text, dropped, longest, endSymbol) {
  const { ids, words, wordOf } = tokenizer.encode(text);
  const kept = ids.map((_, place) => place).filter((place) => !dropped.has(wordOf[place]));
  const tokens = kept.map((place) => ids[place]), owners = kept.map((place) => wordOf[place]);
  const unknown = words.map((_, word) => ids.some((id, place) => id === UNKNOWN && wordOf[place] === word));
  return {
    text, words, unknown, dropped: words.map((_, word) => dropped.has(word)), numTokens: tokens.length,
    tokens: endSymbol ? [...tokens, END] : tokens,
    wordOf: endSymbol ? [...owners, -1] : owners,
    tooLong: tokens.length > longest,
  };
}

/** Sum columns by word, for rows of weights over tokens; what fell on no word is returned apart. */
export function byWord(weights, wordOf, numWords) {
  const row = new Float64Array(numWords);
  let hidden = 0;
  wordOf.forEach((word, token) => (word < 0 ? (hidden += weights[token]) : (row[word] += weights[token])));
  return { row, hidden };
}

/** The weights of one layer and head, or their mean: data of sizes (layers, heads, length). */
function pickHead({ data, sizes }, layer, head) {
  const [, heads, length] = sizes;
  const at = (one) => data.subarray((layer * heads + one) * length, (layer * heads + one + 1) * length);
  if (head !== null) return at(head);
  const mean = new Float32Array(length);
  for (let one = 0; one < heads; one++) at(one).forEach((weight, place) => (mean[place] += weight / heads));
  return mean;
}

export class TranslatorModel {
  static async open(number, settings) {
    const model = new TranslatorModel();
    model.settings = settings;
    model.source = new Tokenizer(settings.source);
    model.target = new Tokenizer(settings.target);
    model.engine = await TranslatorEngine.open(number, settings);
    return model;
  }

  /**
   * Translate a text.
   *
   * asked: text, dropped (Set of source words), beamSize, prefix (ids), edits (Map of step → {weights, layer, head}).
   * Returns null if the answer is no longer wanted.
   */
  async run({ text, dropped = new Set(), beamSize, numBest = beamSize, prefix = [], edits = new Map() }, isStale = () => false) {
    const source = readSource(this.source, text, dropped, this.settings.max_tokens, true);
    if (source.tooLong) {
      throw new PageError(
        `The text has ${source.numTokens} tokens; this model reads at most ${this.settings.max_tokens}. Shorten it.`);
    }
    if (!source.numTokens) return { source, empty: true };
    const { state, within } = await this.engine.encode(source.tokens);
    const overrides = new Map([...edits].filter(([, edit]) => edit.weights.length === source.tokens.length));
    const decoding = this.settings.decoding;
    const settings = {
      ...decoding, beam_size: beamSize, n_best: numBest, limit: lengthLimit(source.tokens.length, decoding, prefix.length),
    };
    const found = await search(this.engine, state, settings, { prefix, overrides, isStale });
    if (!found || isStale()) return null;
    if (!found.hypotheses.length) throw new PageError("The model gives no word that could follow here. Undo the last change.");
    const hypotheses = found.hypotheses.map((one) => this.#describe(one, source));
    return { source, within, best: hypotheses[0], hypotheses, steps: found.steps, overrides };
  }

  #describe(hypothesis, source) {
    const replaced = this.settings.decoding.replace_unknown ? this.#replacements(hypothesis, source) : new Map();
    const { words, wordOf } = this.target.describe(hypothesis.path.map((step) => step.token));
    for (const [place, word] of replaced) words[wordOf[place]] = word;
    return { ...hypothesis, text: this.target.decode(hypothesis.tokens, replaced), words, wordOf };
  }

  /** For each unknown symbol, the source word most attended to when it was predicted. */
  #replacements(hypothesis, source) {
    const found = new Map();
    hypothesis.path.forEach(({ token, attention }, place) => {
      if (token !== UNKNOWN) return;
      let best = -1;
      source.wordOf.forEach((word, at) => {
        if (word >= 0 && (best < 0 || attention.cross[at] > attention.cross[best])) best = at;
      });
      if (best >= 0) found.set(place, source.words[source.wordOf[best]]);
    });
    return found;
  }

  /** The weights of one step over source tokens; `site` has a layer (null for the alignment) and a head (null for the mean). */
  weightsAt(step, site) {
    return site.layer === null ? step.attention.cross : pickHead(step.attention.heads, site.layer, site.head);
  }

  /** How a token of the output is written. */
  spell(id) {
    if (id === END) return "end";
    const token = this.target.tokens[id];
    return this.target.scheme.space ? token.replaceAll(this.target.scheme.space, "␣") : token;
  }
}

export class ClassifierModel {
  static async open(number, settings) {
    const model = new ClassifierModel();
    model.settings = settings;
    model.source = new Tokenizer(settings.source);
    model.engine = await ClassifierEngine.open(number, settings);
    return model;
  }

  async run({ text, dropped = new Set() }, isStale = () => false) {
    const source = readSource(this.source, text, dropped, Infinity, false);
    const longest = this.settings.max_tokens;
    const cut = source.tokens.length > longest ? longest : null;
    if (cut) Object.assign(source, { tokens: source.tokens.slice(0, cut), wordOf: source.wordOf.slice(0, cut) });
    const tokens = source.tokens.length ? source.tokens : [UNKNOWN]; // a text without words is one unknown word
    const { probabilities, attention } = await this.engine.classify(tokens);
    if (isStale()) return null;
    const order = probabilities.map((_, place) => place).sort((a, b) => probabilities[b] - probabilities[a]);
    return { source, cut, probabilities, order, attention, label: this.settings.labels[order[0]], empty: !source.words.length };
  }

  /** The weight of each word at a site that pools, from the mean of its heads. */
  wordWeights(result, site = "pool") {
    const { data, sizes } = result.attention[site];
    const length = sizes.at(-1), heads = data.length / length;
    const mean = new Float32Array(length);
    data.forEach((weight, place) => (mean[place % length] += weight / heads));
    return byWord(mean, result.source.wordOf, result.source.words.length).row;
  }
}
