// Find the words of one output that are not in another, by their longest common subsequence.

/** Return for each of `words` whether it is outside the longest common subsequence of both lists. */
export function changedWords(words, others) {
  const length = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      length[i][j] = words[i] === others[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const changed = words.map(() => true);
  for (let i = 0, j = 0; i < words.length && j < others.length; ) {
    if (words[i] === others[j]) [changed[i], i, j] = [false, i + 1, j + 1];
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return changed;
}
