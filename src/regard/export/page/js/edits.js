// Attention weights changed by hand. Weights are over source tokens; a word may have several.

const DIGITS = 1e4; // weights are rounded when they are made, so that an address holds them exactly

const rounded = (weights) => Float32Array.from(weights, (weight) => Math.round(weight * DIGITS) / DIGITS);
const tokensOf = (wordOf, word) => wordOf.map((_, token) => token).filter((token) => wordOf[token] === word);

function powered(weights, exponent) {
  const raised = Array.from(weights, (weight) => weight ** exponent);
  const sum = raised.reduce((a, b) => a + b, 0);
  return rounded(raised.map((weight) => (sum ? weight / sum : 0)));
}

/** Make large weights larger: their squares, in sum one. */
export const sharpen = (weights) => powered(weights, 2);

/** Make weights more alike: their square roots, in sum one. */
export const flatten = (weights) => powered(weights, 0.5);

/** Attend to nothing. */
export const erase = (weights) => new Float32Array(weights.length);

/** Move the weight of one word to another. */
export function moveWeight(weights, wordOf, from, to) {
  const changed = Float64Array.from(weights), target = tokensOf(wordOf, to);
  let moved = 0;
  for (const token of tokensOf(wordOf, from)) [moved, changed[token]] = [moved + changed[token], 0];
  for (const token of target) changed[token] += moved / target.length;
  return rounded(changed);
}

/** Attend to one word alone. */
export function attendTo(weights, wordOf, word) {
  const changed = new Float64Array(weights.length), target = tokensOf(wordOf, word);
  for (const token of target) changed[token] = 1 / target.length;
  return rounded(changed);
}

/** Change the weight of one word by an amount, at the cost of the others or in their favour. */
export function changeWeight(weights, wordOf, word, amount) {
  const target = new Set(tokensOf(wordOf, word));
  let own = 0, others = 0;
  weights.forEach((weight, token) => (target.has(token) ? (own += weight) : (others += weight)));
  const wanted = Math.min(1, Math.max(0, own + amount));
  return rounded(Array.from(weights, (weight, token) => {
    if (target.has(token)) return own ? (weight * wanted) / own : wanted / target.size;
    return others ? (weight * (1 - wanted)) / others : weight;
  }));
}
