// Join words into a sentence, by the rules of regard.text.tokenizers.detokenizer.

const MARKS = "։՝׃؛؞܀܁܂܃܄܅܆܇܈܉߸߹།༎༔၊။።፣፤፥፦፧፨᙮។៕៖᠂᠃᠄᠅᥄᥅᭚᭛᭝᭞᭟᰻᰼᰽᰾᰿᱾᱿⹁⹎꓾꓿꘍꘎꘏꛳꛴꛵꛶꛷꡶꡷꣎꣏꧇꧈꧉꩝꩞꩟꯫𑅁𑅂𑅃";
const CLOSING = new Set([...",.;:!?…)]}°′″‰、。，！？；：）」』》؟،۔।॥", ...MARKS, "...", ".."]);
const GLUED = new Set("་༌፡\u200b␊␉␠");
const OPENING = new Set("([{¿¡（「『《");
const PREFIXES = new Set("$£€¥₹₽₺#§~");
const CONTRACTION = /^(?:n['’]?t|['’](?:s|re|ve|ll|d|m))$/iu;
const HALVES = new Set(["gon na", "wan na", "got ta", "gim me", "lem me", "can not", "i m", "i d"]);
const ELIDING = new Set(["fr", "it", "ca", "oc"]);
const CJK_CHARACTER =
  /^[\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\u{20000}-\u{3ffff}]/u;
const SPACELESS = new Set(["zh", "ja", "yue"]);
const QUOTATION_PAIRS = { "“": "”", "‘": "’", "„": "“”", "‚": "‘’", "«": "»", "‹": "›" };
const GERMAN_PAIRS = { "„": "“”", "‚": "‘’", "»": "«", "›": "‹" };

const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;
const first = (text) => [...text][0] ?? "";
const last = (text) => [...text].at(-1) ?? "";
const isDigit = (character) => /^[\p{Nd}²³¹⁰⁴-⁹₀-₉]$/u.test(character);
/** Return a word without marks and invisible characters, which the rules ignore. */
const bare = (word) => word.replace(/[\p{Cf}\p{Mn}]/gu, "") || word;
const isWord = (text) => LETTER_OR_DIGIT.test(text);

/** Join words into a sentence as it is written. */
export function detokenize(words, language = "", splitHyphens = false) {
  const code = language.toLowerCase().split(/[-_]/)[0];
  const joiner = { language: code, splitHyphens, pairs: code === "de" ? GERMAN_PAIRS : QUOTATION_PAIRS, open: [] };
  const shown = words;
  words = words.map(bare);
  const final = new Map(words.map((word, place) => [word, place]));
  let text = "";
  let glued = true; // whether the next word follows without a space
  words.forEach((word, place) => {
    const [left, right] = glue(joiner, words[place - 1] ?? "", word, words[place + 1] ?? "", final.get(word) === place);
    text += (glued || left ? "" : " ") + shown[place];
    glued = right;
  });
  return text;
}

/** Return whether a word is joined to the word before it and to the word after it. */
function glue(joiner, before, word, after, isLast) {
  const { language } = joiner;
  if (GLUED.has(first(word))) return [true, true];
  const quoted = quotation(joiner, before, word, isLast);
  if (quoted) return quoted;
  if (OPENING.has(word)) return [false, true];
  if (CLOSING.has(word) || /^[!?]*$/.test(word) || (word === "·" && language === "el")) return [!(language === "fr" && "?!;:".includes(first(word))), false];
  if (word === "%") return [!["de", "fr", "sv", "cs"].includes(language), false];
  if (PREFIXES.has(word)) {
    const next = first(after);
    return [false, isDigit(next) || ("#~".includes(word) && LETTER_OR_DIGIT.test(next))];
  }
  if (word === "/" || word === "@" || (word === "–" && isDigit(last(before)) && isDigit(first(after)))) {
    return [isWord(before) && isWord(after), isWord(before) && isWord(after)];
  }
  if (["-", "‐", "‑"].includes(word)) {
    const closed = joiner.splitHyphens && isWord(before) && isWord(after);
    return [closed, closed || !before];
  }
  if (CONTRACTION.test(word) || HALVES.has(`${before.toLowerCase()} ${word.toLowerCase()}`)) return [true, false];
  if ("-‐‑".includes(first(word)) && before && "“”‘’»«\").".includes(last(before))) return [true, false];
  const elided = ELIDING.has(language) && [...word].length > 1 && "'’".includes(last(word));
  return [isSpaceless(language, before, word), elided];
}

/** Return how a quotation mark is joined, and track the open ones; null for other words. */
function quotation(joiner, before, word, isLast) {
  const airy = joiner.language === "fr" && (word === "«" || word === "»");
  if (joiner.open.length && joiner.open.at(-1).includes(word)) {
    joiner.open.pop();
    return [!airy, false];
  }
  if (Object.hasOwn(joiner.pairs, word)) {
    joiner.open.push(joiner.pairs[word]);
    return [false, !airy];
  }
  if ((word === "'" || word === "’") && LETTER_OR_DIGIT.test(last(before)) && isLast) return [true, false];
  if (['"', "'", "`", "``", "''"].includes(word)) {
    joiner.open.push(word === "``" ? "''" : word);
    return [false, true];
  }
  return ["”", "’", "»", "“", "‘", "«", "›", "‹"].includes(word) ? [!airy, false] : null;
}

function isSpaceless(language, before, word) {
  if (!before) return false;
  const one = CJK_CHARACTER.test(last(before));
  const other = CJK_CHARACTER.test(word);
  return SPACELESS.has(language) ? one || other : one && other;
}
