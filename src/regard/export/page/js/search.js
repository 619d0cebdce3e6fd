// Greedy and beam search, as in regard.decoding.search: a beam of one is greedy.
//
// A finished hypothesis Y has the score (log p(Y | X) + r·|Y|) / ((5 + |Y|) / 6)^α, |Y| counting the end symbol. Everything
// that the search has considered is kept in its trace, from which the page draws the candidates and the tree.

import { END, PAD, START, UNKNOWN } from "./tokenizer.js";

const LONGEST_TARGET = 500;
const CANDIDATES = 12; // continuations of each hypothesis that are kept for the page

/** Return the maximum number of steps of a target: by default, twice the length of the source and 20 more. */
export function lengthLimit(sourceLength, settings, prefixLength = 0) {
  if (settings.max_length) return Math.max(settings.max_length, prefixLength + 1);
  return Math.max(Math.min(2 * sourceLength + 20, LONGEST_TARGET) + prefixLength, settings.min_length + 20);
}

const scoreOf = (logProbability, length, { length_penalty: alpha, length_reward: reward }) =>
  (logProbability + reward * length) / ((5 + length) / 6) ** alpha;

/**
 * Search for the best targets.
 *
 * model:     step(tokens, state, override) → {logProbabilities (N·V), attention (N), state}, and select(state, parents).
 * state:     the model's state before the first word.
 * settings:  beam_size, n_best (how many hypotheses are wanted), length_penalty, length_reward, min_length, …, as in regard's `decoding`, and limit.
 * guide:     prefix: ids that the target begins with; overrides: Map of step → attention to use in place of the model's own.
 * isStale:   a function that returns true if the result is no longer needed; the search then returns null.
 */
export async function search(model, state, settings, { prefix = [], overrides = new Map(), isStale = () => false } = {}) {
  let live = [{ token: START, total: 0, handicap: 0, words: [] }];
  const steps = [], ended = [];
  while (live.length) {
    const override = overrides.get(steps.length) ?? null;
    const found = await model.step(live.map((one) => one.token), state, override);
    if (isStale()) return null;
    const length = steps.length + 1;
    const isLast = length >= settings.limit;
    const rows = live.map((_, number) => found.logProbabilities.subarray(number * model.size, (number + 1) * model.size));
    const forced = prefix[steps.length];
    const chosen = continuations(live, rows, settings, { forced, endCost: isLast ? 0 : settings.length_reward });
    steps.push({
      chosen,
      attention: found.attention,
      candidates: rows.map((row) => bestOf(row, CANDIDATES).map((token) => ({ token, logProbability: row[token] }))),
    });
    const going = [];
    chosen.forEach((one, slot) => {
      const finished = one.token === END;
      one.ended = finished || isLast;
      if (!one.ended) return going.push({ ...one, slot });
      const score = scoreOf(one.total - one.handicap, length, settings);
      ended.push({ step: steps.length - 1, slot, score, finished, logProbability: one.total });
    });
    if (isLast || isDone(going, ended, length, settings)) break;
    state = model.select(found.state, going.map((one) => one.parent));
    live = going;
    // A hypothesis that has ended leaves the beam, so `parent` is an index into the hypotheses that the next step reads.
    steps.at(-1).fed = going.map((one) => one.slot);
  }
  ended.sort((a, b) => b.finished - a.finished || b.score - a.score || a.step - b.step || a.slot - b.slot);
  return { steps, hypotheses: ended.slice(0, settings.beam_size).map((ending) => follow(steps, ending)) };
}

/** Whether no unfinished hypothesis can still become one of the n best, because log probabilities only fall. */
function isDone(going, ended, length, settings) {
  const finished = ended.filter((one) => one.finished).map((one) => one.score).sort((a, b) => b - a);
  if (finished.length >= settings.beam_size || !going.length) return true;
  if (finished.length < settings.n_best) return false;
  const best = Math.max(...going.map((one) => one.total - one.handicap));
  let bound = scoreOf(best, settings.limit, settings);
  if (settings.length_reward) {
    bound = Math.max(bound, scoreOf(best + settings.length_reward * (settings.limit - length), length, settings));
  }
  return bound <= finished[settings.n_best - 1];
}

/** Return the best continuations of all hypotheses together, by log probability minus the costs of restrictions. */
function continuations(live, rows, settings, { forced, endCost }) {
  const all = [];
  live.forEach((one, parent) => {
    const costs = forced === undefined ? costsOf(one.words, rows[parent], settings) : null;
    const words = forced === undefined ? bestOf(rows[parent], settings.beam_size + 1, costs) : [forced];
    for (const token of words) {
      const cost = costs?.get(token) ?? 0;
      const total = Math.fround(one.total + rows[parent][token]);
      const handicap = one.handicap + cost;
      const compared = total - handicap - (token === END ? endCost : 0);
      if (Number.isFinite(compared)) {
        all.push({ parent, token, total, handicap, compared, logProbability: rows[parent][token], words: [...one.words, token] });
      }
    }
  });
  return all.sort((a, b) => b.compared - a.compared).slice(0, settings.beam_size);
}

/** Return the costs that are subtracted when next words are compared; Infinity for words that must not follow. */
function costsOf(words, row, settings) {
  const costs = new Map();
  if (settings.repetition_penalty > 1) {
    for (const word of words) costs.set(word, row[word] * (1 - settings.repetition_penalty));
  }
  const size = settings.no_repeat_ngrams;
  if (size && words.length >= size) {
    const last = words.slice(words.length - size + 1);
    for (let at = 0; at + size <= words.length; at++) {
      if (last.every((word, place) => word === words[at + place])) costs.set(words[at + size - 1], Infinity);
    }
  }
  if (settings.suppress_unknown) costs.set(UNKNOWN, Infinity);
  if (words.length < settings.min_length) costs.set(END, Infinity);
  return costs;
}

/** The `count` words with the highest log probability, less their costs; never padding or the start symbol. */
function bestOf(row, count, costs = null) {
  const best = [], values = [];
  for (let token = 0; token < row.length; token++) {
    if (token === PAD || token === START) continue;
    const value = costs?.size ? row[token] - (costs.get(token) ?? 0) : row[token];
    if (best.length === count && value <= values[count - 1]) continue;
    let place = best.length;
    while (place > 0 && values[place - 1] < value) place--;
    best.splice(place, 0, token);
    values.splice(place, 0, value);
    if (best.length > count) [best.length, values.length] = [count, count];
  }
  return best;
}

/** Walk back from the end of a hypothesis to its start, and collect its words and their attention. */
function follow(steps, ending) {
  const path = [];
  for (let number = ending.step, slot = ending.slot; number >= 0; number--) {
    const one = steps[number].chosen[slot];
    path.unshift({
      token: one.token,
      logProbability: one.logProbability,
      total: one.total,
      slot,
      candidates: steps[number].candidates[one.parent],
      attention: steps[number].attention[one.parent],
      row: one.parent,
    });
    if (number) slot = steps[number - 1].fed[one.parent];
  }
  const tokens = path.map((step) => step.token);
  return { ...ending, path, tokens: ending.finished ? tokens.slice(0, -1) : tokens };
}
