// A model with its tokenizers: text in, plain results out, which the views draw.

import { decimal } from "./dom.js";
import { ClassifierEngine, DecoderEngine } from "./engine.js";
import { lengthLimit, search } from "./search.js";
import { END, START, Tokenizer, UNKNOWN } from "./tokenizer.js";

/** An error that the user can correct; its message is shown. */
export class PageError extends Error {}

const MOST_NEW_TOKENS = 24; // maximum number that a language model adds to a text

/** Encode a text without the words that are left out. */
function readSource(tokenizer, text, dropped, longest, endSymbol, units) {
  const encoded = tokenizer.encode(text), { ids } = encoded;
  const { words, wordOf, scheme } = tokenizer.inUnits(encoded, ids, units);
  const kept = ids.map((_, place) => place).filter((place) => !dropped.has(wordOf[place]));
  const tokens = kept.map((place) => ids[place]), owners = kept.map((place) => wordOf[place]);
  const unknown = words.map((_, word) => ids.some((id, place) => id === UNKNOWN && wordOf[place] === word));
  return {
    text, words, scheme, unknown, dropped: words.map((_, word) => dropped.has(word)), numTokens: tokens.length,
    tokens: endSymbol ? [...tokens, END] : tokens,
    wordOf: endSymbol ? [...owners, -1] : owners,
    tooLong: tokens.length > longest,
  };
}

/** Sum the weights of each word's tokens; the weight on tokens that belong to no word is returned as `hidden`. */
export function byWord(weights, wordOf, numWords) {
  const row = new Float64Array(numWords);
  let hidden = 0;
  weights.forEach((weight, token) => (wordOf[token] < 0 ? (hidden += weight) : (row[wordOf[token]] += weight)));
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

const tooLong = (source, most) => new PageError(`The text has ${source.numTokens} tokens; this model reads at most ${most}. Shorten it.`);

export class TranslatorModel {
  /** Texts on the page that depend on the kind of model. */
  words = {
    hidden: "end", alignment: "alignment", caption: "output words down, source words across", heads: "Output words read source words",
    advice: "Drag the end of a band to another word, or select an output word. Click a source word to leave it out.",
    guide: "A band joins an output word to a source word that the model read when it wrote the output word. The wider and darker the band, the larger the weight. If you move a band, the model writes the output again, with your weights.",
    sum: "The weights of an output word sum to 100%.",
  };

  static async open(number, settings) {
    const model = new this();
    model.settings = settings;
    model.target = new Tokenizer(settings.target);
    model.source = settings.source ? new Tokenizer(settings.source) : model.target;
    model.engine = await DecoderEngine.open(number, settings);
    return model;
  }

  /**
   * Translate a text.
   *
   * asked: text, dropped (Set of source words), beamSize, prefix (ids), edits (Map of step → {weights, layer, head}).
   * Returns null if the result is no longer needed.
   */
  async run({ text, dropped = new Set(), beamSize, numBest = beamSize, prefix = [], edits = new Map(), units = "auto" }, isStale = () => false) {
    const source = readSource(this.source, text, dropped, this.settings.max_tokens, true, units);
    if (source.tooLong) throw tooLong(source, this.settings.max_tokens);
    if (!source.numTokens) return { source, empty: true };
    const { state, within } = await this.engine.encode(source.tokens);
    const overrides = new Map([...edits].filter(([, edit]) => edit.weights.length === source.tokens.length));
    const decoding = this.settings.decoding;
    const settings = {
      ...decoding, beam_size: beamSize, n_best: numBest, limit: lengthLimit(source.tokens.length, decoding, prefix.length),
    };
    const found = await this.search(state, settings, { prefix, overrides, isStale });
    if (!found) return null;
    const hypotheses = found.hypotheses.map((one) => this.#describe(one, source, units));
    return { source, within, best: hypotheses[0], hypotheses, steps: found.steps, numGiven: 0 };
  }

  /** Search for the best outputs; null if the result is no longer needed. */
  async search(state, settings, guide) {
    const found = await search(this.engine, state, settings, guide);
    if (!found || guide.isStale()) return null;
    if (!found.hypotheses.length) throw new PageError("The model gives no word that could follow here. Undo the last change.");
    return found;
  }

  /** Describe the scores of an output. */
  score({ logProbability }) {
    const probability = Math.exp(logProbability);
    const shown = probability >= 0.001 ? `${(100 * probability).toFixed(1)}%` : probability.toExponential(1);
    return `probability ${shown} · log probability ${decimal(logProbability, 2)}`;
  }

  #describe(hypothesis, source, units) {
    const replaced = this.settings.decoding.replace_unknown ? this.#replacements(hypothesis, source) : new Map();
    const ids = hypothesis.path.map((step) => step.token);
    const { words, wordOf, scheme } = this.target.inUnits(this.target.describe(ids), ids, units);
    for (const number of new Set([...replaced.keys()].map((place) => wordOf[place]))) {
      const places = ids.map((_, place) => place).filter((place) => wordOf[place] === number);
      const parts = places.map((place, at) => [at, replaced.get(place)]).filter(([, word]) => word !== undefined);
      words[number] = this.target.decode(places.map((place) => ids[place]), new Map(parts)).trim();
    }
    return { ...hypothesis, text: this.target.decode(hypothesis.tokens, replaced), words, wordOf, scheme };
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

  /** Return the text of a token of the output. */
  spell(id) {
    if (id === END) return "end";
    const token = this.target.tokens[id];
    return this.target.scheme.space ? token.replaceAll(this.target.scheme.space, "␣") : token;
  }
}

/** A language model: its source is its own text, of which each step reads the part that is already written. */
export class LanguageModel extends TranslatorModel {
  words = {
    hidden: "start", alignment: "all heads", caption: "each word down, the words before it across", heads: "Each word reads the words before it",
    advice: "Drag the end of a band to another word, or select a word on the right.",
    guide: "A band joins a word to a word before it that the model read when it wrote the word. The wider and darker the band, the larger the weight. If you move a band, the model writes the text again from there, with your weights.",
    sum: "The weights of a word sum to 100%.",
  };

  /** Continue a text; see `TranslatorModel.run`. `prefix` replaces the text's own tokens. */
  async run({ text, beamSize, numBest = beamSize, prefix = [], edits = new Map(), units = "auto" }, isStale = () => false) {
    const prompt = readSource(this.target, text, new Set(), this.settings.max_tokens, false, units);
    if (prompt.tooLong) throw tooLong(prompt, this.settings.max_tokens);
    const given = prefix.length ? prefix : prompt.tokens, { decoding } = this.settings;
    const limit = given.length + Math.min(decoding.max_length || MOST_NEW_TOKENS, MOST_NEW_TOKENS);
    const overrides = new Map([...edits].filter(([step, edit]) => edit.weights.length === step + 1));
    const settings = { ...decoding, beam_size: beamSize, n_best: numBest, limit };
    const found = await this.search(this.engine.begin(), settings, { prefix: given, overrides, isStale });
    if (!found) return null;
    const known = this.target.decode(prompt.tokens);
    const hypotheses = found.hypotheses.map((one) => {
      const whole = this.target.decode(one.tokens);
      const ids = one.path.map((step) => step.token), described = this.target.inUnits(this.target.describe(ids), ids, units);
      // Show the prompt as it was typed, because the model may not know all its words, or may read it in lower case.
      return { ...one, ...described, text: whole.startsWith(known) ? text.trimEnd() + whole.slice(known.length) : whole };
    });
    return { source: this.#read(hypotheses[0], text, units), within: null, best: hypotheses[0], hypotheses, steps: found.steps, numGiven: given.length };
  }

  /** Return the tokens that the steps of an output have read: the start symbol, and all tokens but the last. */
  #read({ path }, text, units) {
    const fed = path.slice(0, -1).map((step) => step.token), tokens = [START, ...fed];
    const { words: read, wordOf, scheme } = this.target.inUnits(this.target.describe(fed), fed, units), owners = [-1, ...wordOf];
    const unknown = read.map((_, word) => tokens.some((id, place) => id === UNKNOWN && owners[place] === word));
    return { text, words: read, scheme, wordOf: owners, tokens, unknown, dropped: read.map(() => false) };
  }

  score({ logProbability, path }) {
    return `perplexity ${Math.exp(-logProbability / path.length).toPrecision(3)} · log probability ${decimal(logProbability, 2)} of ${path.length} tokens`;
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

  async run({ text, dropped = new Set(), units = "auto" }, isStale = () => false) {
    const source = readSource(this.source, text, dropped, Infinity, false, units);
    const longest = this.settings.max_tokens;
    const cut = source.tokens.length > longest ? longest : null;
    if (cut) Object.assign(source, { tokens: source.tokens.slice(0, cut), wordOf: source.wordOf.slice(0, cut) });
    const tokens = source.tokens.length ? source.tokens : [UNKNOWN]; // a text without words is one unknown word
    const { probabilities, attention } = await this.engine.classify(tokens);
    if (isStale()) return null;
    const order = probabilities.map((_, place) => place).sort((a, b) => probabilities[b] - probabilities[a]);
    return { source, cut, probabilities, order, attention, label: this.settings.labels[order[0]], empty: !source.words.length };
  }

  /** Return the weight of each word at a pooling site, averaged over heads. */
  wordWeights(result, site = "pool") {
    const { data, sizes } = result.attention[site];
    const length = sizes.at(-1), heads = data.length / length;
    const mean = new Float32Array(length);
    data.forEach((weight, place) => (mean[place % length] += weight / heads));
    return byWord(mean, result.source.wordOf, result.source.words.length).row;
  }
}
