// Text to ids and back, by the rules of regard.text.tokenizers: the same ids and words as in Python.
//
// A text is cut at spaces into chunks, a chunk into words, a word into units, which the vocabulary knows or cuts further.

import { detokenize } from "./detokenizer.js";

export const PAD = 0, UNKNOWN = 1, START = 2, END = 3;
export const UNKNOWN_TOKEN = "<unk>";
const NUM_SPECIAL = 4;
const SPACE_MARK = "▁";

const PYTHON_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const CJK = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const FORMAT = "(?!\\u{200B})\\p{Cf}"; // invisible characters, but not the zero-width space, which divides words
const EXTEND = "(?!\\u{200B})[\\p{M}\\p{Cf}\\u{1F3FB}-\\u{1F3FF}]"; // these belong to the character before them (UAX 29, WB4)
const EMOJI = "[0-9#*]\\u{FE0F}?\\u{20E3}|[\\u{1F1E6}-\\u{1F1FF}]{2}|\\p{Extended_Pictographic}";
const JOINED_EMOJI = `(?:${EXTEND})*(?:(?<=\\u{200D})\\p{Extended_Pictographic}(?:${EXTEND})*)*`;

/** The pattern of a word whose letters, digits and marks are `letter`. */
function wordPattern(letter) {
  const joint =
    "(?<=[\\p{Nd}\\p{Cf}])[.,:;'’٫٬،⁄](?=\\p{Cf}*\\p{Nd})" + // 3.14, 1,000, 10:30
    "|(?<=[\\p{L}\\p{M}\\p{Cf}])['‘’.:·‧՟״](?=\\p{Cf}*\\p{L})" + // don't, U.S, EU:n
    '|(?<=\\p{Script=Hebrew})"(?=\\p{Script=Hebrew})' + // an acronym
    "|(?<=\\p{Lu})&(?=\\p{Lu})" + // R&B
    `|[-‐‑](?=${letter})`; // well-known
  const start =
    "['’](?:[sSſ]|[rR][eE]|[vV][eE]|[lL][lL]|[dD]|[mM]|[eE][mM]|[nN]|[nN][eE]|[nN][eE][nN]|[tT])(?![\\p{L}\\p{N}])" +
    `|(?:(?<!\\S)[-−+](?=\\p{Nd})|(?:(?<!\\S)|(?<=[“”‘’»«").]))[-‐‑](?=\\p{L}))?(?:${letter})+`; // -5; „Stop“-Schild
  const hanging = "(?:(?<=\\p{L})-(?![-\\p{L}\\p{N}])|(?<=\\p{Script=Hebrew})')?"; // Vor- und Nachname
  return `(?:${start})(?:(?:${joint})(?:${letter})+)*${hanging}`;
}

const LETTER =
  "[\\p{L}\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}\\p{Cf}\\u{2B0}-\\u{2FF}\\u{55A}-\\u{55C}\\u{55E}\\u{58A}\\u{5F3}\\u{A708}-\\u{A721}]";
const WORD = new RegExp(
  `(?:${FORMAT})*(?:${EMOJI}|[${CJK}]|${wordPattern(`(?![\\u{200B}${CJK}])${LETTER}`)}|([^\\s])\\1*)${JOINED_EMOJI}`, "gu");
const SUBWORD_WORD = new RegExp(
  `${SPACE_MARK}?(?:${FORMAT})*(?:${EMOJI}|${wordPattern(`(?!\\u{200B})${LETTER}`)}|([^\\s${SPACE_MARK}])\\1*)${JOINED_EMOJI}`, "gu");
const SUBWORD_UNIT = new RegExp(
  `${SPACE_MARK}?[\\p{L}\\p{M}\\p{Cf}]+|${SPACE_MARK}?\\p{N}+` +
    `|${SPACE_MARK}?([^\\s\\p{L}\\p{M}\\p{N}\\p{Cf}${SPACE_MARK}])\\1*`, "gu");

const NO_SPACES = new RegExp(
  `[${CJK}々〇〆\\u3001-\\u3003\\u30fb\\u30fc\\p{Script=Bopomofo}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}` +
  "\\p{Script=Tibetan}\\p{Script=Yi}\\p{Script=Tai_Le}\\p{Script=Tai_Tham}\\p{Script=Tai_Viet}\\p{Script=New_Tai_Lue}" +
  "\\p{Script=Javanese}\\p{Script=Balinese}]", "u");
const JOINING = "\u200d\u17d2\u1039\u1a60\u1b44\ua9c0"; // signs that join two consonants

/** Whether two neighbouring tokens are parts of different words, because the script there has no spaces. */
function endsWord(before, after) {
  if (!before || !after || JOINING.includes(before.at(-1)) || /^[\p{M}\p{Cf}]/u.test(after)) return false;
  return NO_SPACES.test([...before].slice(-3).join("") + String.fromCodePoint(after.codePointAt(0)));
}

/** Cut a text at the matches of a pattern; what lies between two matches is a part too. */
function isolate(pattern, text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    parts.push(match[0]);
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

const splitAtSpace = (text) => text.split(PYTHON_SPACE).filter(Boolean);

/** How a kind of tokenizer cuts text into words and units, and joins symbols. */
function schemeOf({ kind, language }) {
  const scheme = { space: "", leadingSpace: false, units: (word) => [word] };
  switch (kind) {
    case "whitespace":
      scheme.split = (chunk) => chunk.match(/[^ \t\n\r\f\v]+/g) ?? [];
      scheme.join = (symbols) => symbols.join(" ");
      return scheme;
    case "spacy": // spaCy's rules run in Python only: here, words are joined, but text is only cut at spaces
      scheme.split = splitAtSpace;
      scheme.join = (symbols) => detokenize(symbols, language, language !== "de");
      return scheme;
    case "words":
      scheme.split = (chunk) => isolate(WORD, chunk);
      scheme.join = (symbols) => detokenize(symbols, language);
      return scheme;
    case "characters":
      scheme.space = " ";
      scheme.split = (chunk) => isolate(WORD, chunk);
      scheme.units = (word, isFirst) => [...(isFirst ? " " + word : word)];
      scheme.join = (symbols) => symbols.join("");
      return scheme;
    default: // bpe, unigram
      scheme.space = SPACE_MARK;
      scheme.leadingSpace = true;
      scheme.split = (chunk) =>
        splitAtSpace(chunk.replaceAll(SPACE_MARK, "_")).flatMap((part) => isolate(SUBWORD_WORD, part));
      scheme.units = (word, isFirst) => isolate(SUBWORD_UNIT, isFirst ? SPACE_MARK + word : word);
      scheme.join = (symbols) => trimSpace(symbols.join("").replaceAll(SPACE_MARK, " "));
      return scheme;
  }
}

const trimSpace = (text) =>
  text.replace(new RegExp(`^${PYTHON_SPACE.source}`, "u"), "").replace(new RegExp(`${PYTHON_SPACE.source}$`, "u"), "");

/** A tokenizer, made from the plain data that Python wrote. */
export class Tokenizer {
  constructor(saved) {
    Object.assign(this, saved);
    this.scheme = schemeOf(saved);
    this.keepsSpace = saved.tokens.some((token) => /[␊␉␠]/u.test(token)); // else, runs of white space are one space
    this.idOf = new Map(saved.tokens.map((token, id) => [token, id]));
    if (saved.merges) this.rankOf = new Map(saved.merges.map(([left, right], rank) => [`${left}\0${right}`, rank]));
    if (saved.scores) {
      this.lowest = saved.scores.reduce((least, score) => Math.min(least, score));
      this.longest = saved.tokens.reduce((most, token) => Math.max(most, token.length), 0);
    }
  }

  /** Return ids, the words as a reader sees them, and the word of each id. */
  encode(text) {
    const ids = [], words = [], wordOf = [];
    for (const chunk of this.#clean(text).split(" ")) {
      let isFirst = true;
      const spaced = words.length > 0 || this.scheme.leadingSpace;
      for (const part of this.kind === "whitespace" ? [chunk] : splitAtSpace(chunk)) {
        let atStart = true;
        for (const word of this.scheme.split(part)) {
          const units = this.scheme.units(this.lowercase ? word.toLowerCase() : word, atStart && (spaced || !isFirst));
          for (const id of units.flatMap((unit) => this.#lookUp(unit))) {
            ids.push(id);
            wordOf.push(words.length);
          }
          words.push(word);
          isFirst = atStart = false;
        }
      }
    }
    return { ids, ...this.#part(words, wordOf, ids.map((id) => this.tokens[id])) };
  }

  /** Turn the words of `encode` or `describe` into the given units, and add the scheme of regard's AttentionRecord. */
  inUnits({ words, wordOf, ...rest }, ids, units) {
    const spells = this.kind === "characters";
    if (units !== "tokens" && !(units === "auto" && spells)) return { ...rest, words, wordOf, scheme: "" };
    const own = ids.map((_, place) => place).filter((place) => wordOf[place] >= 0);
    const tokens = own.map((place) => this.tokens[ids[place]]), letters = [...words.join("")];
    const original = spells && letters.length === tokens.filter((token) => token !== " ").length;
    const named = tokens.map((token) => (original && token !== " " ? letters.shift() : token === " " ? "␣" : token));
    return { ...rest, words: named, wordOf: wordOf.map((word, place) => (word < 0 ? word : own.indexOf(place))), scheme: spells ? "characters" : "tokens" };
  }

  /** Turn ids into a text that reads like a sentence; `replace` maps positions to words that replace symbols. */
  decode(ids, replace = new Map()) {
    const spelled = [];
    ids.forEach((id, place) => {
      if (id !== UNKNOWN && id < NUM_SPECIAL) return;
      const other = replace.get(place);
      const mark = other && this.scheme.leadingSpace ? this.scheme.space : "";
      spelled.push(other === undefined ? this.tokens[id] : mark + other);
    });
    const text = this.scheme.join(spelled);
    return this.keepsSpace ? text.replaceAll("␊", "\n").replaceAll("␉", "\t").replaceAll("␠", " ") : text;
  }

  /** Return the words of an output, and the index of each id's word, −1 for special symbols. */
  describe(ids) {
    const ordinary = ids.map((id, place) => [id, place]).filter(([id]) => id === UNKNOWN || id >= NUM_SPECIAL);
    const { words, owners } = this.#group(ordinary.map(([id]) => this.tokens[id]));
    const wordOf = ids.map(() => -1);
    ordinary.forEach(([, place], number) => (wordOf[place] = owners[number]));
    return { words, wordOf };
  }

  #clean(text) {
    const shown = (own) =>
      own.replaceAll("\r\n", "\n").replace(/(?<!\S) | (?=\s)/gu, "␠").replaceAll("\n", "␊").replaceAll("\t", "␉");
    const whole = (this.keepsSpace ? shown(text) : text).replace(/\p{Surrogate}/gu, "?");
    return this.normalization === "none" ? whole : whole.normalize(this.normalization.toUpperCase());
  }

  #lookUp(unit) {
    const found = this.merges ? this.#mergePairs(unit) : this.scores ? this.#bestPieces(unit) : [this.idOf.get(unit)];
    return found.map((id) => (id >= NUM_SPECIAL ? id : UNKNOWN)); // so that no text can contain special symbols
  }

  /** Byte-pair encoding: again and again, merge the pair of neighbours that was learned first; of equal pairs, the leftmost. */
  #mergePairs(unit) {
    const pieces = [...unit].map((character) => (this.idOf.has(character) ? character : null));
    for (;;) {
      let best = Infinity, at = -1;
      for (let place = 0; place + 1 < pieces.length; place++) {
        const rank = this.rankOf.get(`${pieces[place]}\0${pieces[place + 1]}`);
        if (rank < best && pieces[place] !== null && pieces[place + 1] !== null) [best, at] = [rank, place];
      }
      if (at < 0) return pieces.map((piece) => (piece === null ? UNKNOWN : this.idOf.get(piece)));
      pieces.splice(at, 2, pieces[at] + pieces[at + 1]);
    }
  }

  /** Unigram: the pieces with the greatest sum of log probabilities; neighbouring unknown characters are one piece. */
  #bestPieces(unit) {
    const size = unit.length;
    const best = Array.from({ length: size + 1 }, () => ({ score: 0, from: -1, id: UNKNOWN }));
    const offer = (end, score, from, id) => {
      if (best[end].from < 0 || score > best[end].score) best[end] = { score, from, id };
    };
    for (let from = 0; from < size; ) {
      const width = String.fromCodePoint(unit.codePointAt(from)).length;
      let single = false;
      for (let end = from + width; end <= size && end - from <= this.longest; end++) {
        const id = this.idOf.get(unit.slice(from, end));
        if (id === undefined) continue;
        offer(end, this.scores[id] + best[from].score, from, id);
        single ||= end === from + width;
      }
      if (!single) offer(from + width, this.lowest - 10 + best[from].score, from, UNKNOWN);
      from += width;
    }
    const ids = [];
    for (let end = size; end > 0; end = best[end].from) {
      if (best[end].id !== UNKNOWN || ids[0] !== UNKNOWN) ids.unshift(best[end].id);
    }
    return ids;
  }

  /** Assemble symbols into words by the scheme's own rules. */
  #group(tokens) {
    const { space, split } = this.scheme;
    if (!space) return { words: tokens, owners: tokens.map((_, place) => place) };
    // A letter replaces the unknown symbol, so that the symbol becomes a part of the word around it.
    const spelled = tokens.map((token) => [...(token === UNKNOWN_TOKEN ? "x" : token).replaceAll(space, " ")]);
    const ownerAt = []; // the word of each character of the text; a space belongs to the word after it
    let number = 0;
    for (const chunk of spelled.flat().join("").split(" ")) {
      const pieces = split(chunk);
      pieces.forEach((word, place) => {
        for (let left = [...word].length + (place === 0); left > 0; left--) ownerAt.push(number);
        number++;
      });
      if (!pieces.length) ownerAt.push(number);
    }
    ownerAt.shift();
    const words = Array(number).fill("");
    let at = 0;
    const owners = tokens.map((token, place) => {
      const text = spelled[place];
      const blank = text.findIndex((character) => character !== " ");
      const owner = ownerAt[Math.min(at + (blank < 0 ? text.length : blank), ownerAt.length - 1)];
      at += text.length;
      const own = Math.min(owner, number - 1);
      if (number) words[own] += (token === UNKNOWN_TOKEN ? token : text.join("")).replace(/^ +| +$/g, "");
      return own;
    });
    const parted = this.#part(words, owners, tokens);
    return { words: parted.words, owners: parted.wordOf };
  }

  /** Split words of scripts without spaces, such as Chinese or Thai, where tokens begin. */
  #part(words, wordOf, tokens) {
    if (!this.scheme.space || !words.some((word) => NO_SPACES.test(word))) return { words, wordOf };
    const parts = [], partOf = [];
    words.forEach((word, number) => {
      const text = this.lowercase ? word.toLowerCase() : word;
      let start = 0, at = 0;
      for (; wordOf[partOf.length] === number; partOf.push(parts.length)) {
        const spelled = tokens[partOf.length].replaceAll(this.scheme.space, ""), found = text.indexOf(spelled, at);
        const begin = Math.max(found, at);
        if (endsWord(word.slice(start, begin), word.slice(begin))) {
          parts.push(word.slice(start, begin));
          start = begin;
        }
        at = begin + (found >= 0 ? spelled.length : String.fromCodePoint(text.codePointAt(at) ?? 0).length);
      }
      parts.push(word.slice(start));
    });
    return { words: parts, wordOf: partOf };
  }
}
