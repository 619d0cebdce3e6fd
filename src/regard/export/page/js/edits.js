// Change attention weights by hand, as with the functions of regard.reweight. Weights are over source tokens; a word may have
// several tokens.

const DIGITS = 1e4; // weights are rounded when they are made, so that an address holds them exactly

const rounded = (weights) => Float32Array.from(weights, (weight) => Math.round(weight * DIGITS) / DIGITS);
const tokensOf = (weights, wordOf, word) => [...weights.keys()].filter((token) => wordOf[token] === word);

/** Make large weights larger: their squares, with the same sum. */
export function sharpen(weights) {
  const sum = weights.reduce((a, b) => a + b, 0), squares = weights.reduce((total, weight) => total + weight ** 2, 0);
  return rounded(Array.from(weights, (weight) => (squares ? (weight ** 2 * sum) / squares : 0)));
}

/** Give every token the same weight. */
export const flatten = (weights) => new Float32Array(weights.length).fill(Math.round(DIGITS / weights.length) / DIGITS);

/** Attend to nothing. */
export const erase = (weights) => new Float32Array(weights.length);

/** Move the weight of one word to another; null if the other cannot be attended to yet. */
export function moveWeight(weights, wordOf, from, to) {
  const changed = Float64Array.from(weights), target = tokensOf(weights, wordOf, to);
  if (!target.length) return null;
  let moved = 0;
  for (const token of tokensOf(weights, wordOf, from)) [moved, changed[token]] = [moved + changed[token], 0];
  for (const token of target) changed[token] += moved / target.length;
  return rounded(changed);
}

/** Attend to one word alone; null if it cannot be attended to yet. */
export function attendTo(weights, wordOf, word) {
  const changed = new Float64Array(weights.length), target = tokensOf(weights, wordOf, word);
  if (!target.length) return null;
  for (const token of target) changed[token] = 1 / target.length;
  return rounded(changed);
}

/** Add an amount to the weight of one word, and rescale the other weights; null if the word cannot be attended to yet. */
export function changeWeight(weights, wordOf, word, amount) {
  const target = new Set(tokensOf(weights, wordOf, word));
  if (!target.size) return null;
  let own = 0, others = 0;
  weights.forEach((weight, token) => (target.has(token) ? (own += weight) : (others += weight)));
  const wanted = Math.min(1, Math.max(0, own + amount));
  return rounded(Array.from(weights, (weight, token) => {
    if (target.has(token)) return own ? (weight * wanted) / own : wanted / target.size;
    return others ? (weight * (1 - wanted)) / others : weight;
  }));
}
