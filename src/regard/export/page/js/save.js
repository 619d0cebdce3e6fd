// Save the view to a file: the figure as SVG or PNG, and the whole record as JSON, which `regard.load_record` reads.

import { h, percent, s, shorten, widthOf } from "./dom.js";

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-decoration"];
const CELL = 30, GAP = 48, MARGIN = 24, MOST_BARS = 12;

/** Copy a picture with its computed styles. */
function copyPicture(element) {
  const copy = element.cloneNode(false);
  for (const name of ["class", "tabindex", "role", "data-key", "aria-label", "aria-pressed", "style"]) copy.removeAttribute(name);
  if (element instanceof SVGElement && element.localName !== "title") {
    const style = getComputedStyle(element);
    for (const name of COPIED) copy.setAttribute(name, style.getPropertyValue(name));
  }
  for (const child of element.childNodes) {
    if (child.classList?.contains("grip") || child.classList?.contains("hit")) continue;
    copy.append(child.nodeType === Node.TEXT_NODE ? child.cloneNode() : copyPicture(child));
  }
  return copy;
}

/** Return a function that gives a colour of the page as attributes of a shape. Other programs than browsers know no oklab. */
function colourReader() {
  const probe = h("span", { hidden: true });
  return (colour) => {
    document.body.append(probe);
    probe.style.color = `color-mix(in srgb, ${colour}, ${colour})`; // computed as `color(srgb RED GREEN BLUE / ALPHA)`
    const [red, green, blue, alpha = 1] = getComputedStyle(probe).color.match(/\d[\d.e-]*/g).map(Number);
    probe.remove();
    return { fill: `rgb(${[red, green, blue].map((share) => Math.round(255 * share))})`, "fill-opacity": alpha.toFixed(3) };
  };
}

/** Return the style of a word of the page as attributes of a text: an unknown word is dotted, a dropped one struck out. */
function wordStyle(element) {
  const style = getComputedStyle(element), line = style.textDecorationLine;
  const kind = style.textDecorationStyle === "solid" ? "" : ` ${style.textDecorationStyle}`;
  return { fill: style.color, "font-weight": style.fontWeight, "text-decoration": line + kind };
}

/** Draw the weights as a matrix of squares with percentages, and its words, in the colours of the page's table. */
function drawMatrix({ source, output, matrix }, table, font) {
  const fillOf = colourReader();
  const left = Math.max(...output.map((word) => widthOf(word.text, font.css)), 0) + 10;
  const top = Math.max(...source.map((word) => widthOf(word.text, font.css)), 0) + 10;
  const heads = table.querySelectorAll("thead span"), lines = table.querySelectorAll("tbody tr");
  const text = (properties, word, element) =>
    s("text", { "font-family": font.family, "font-size": font.size, ...wordStyle(element), ...properties }, word);
  const rows = output.map((word, down) => {
    const [name, ...cells] = lines[down].children, middle = top + (down + 0.5) * CELL;
    return s("g", { opacity: getComputedStyle(lines[down]).opacity },
      text({ x: left - 8, y: middle, dy: "0.3em", "text-anchor": "end" }, word.text, name),
      cells.map((cell, across) => matrix[down][across] === null ? null : [s("rect", {
          x: left + across * CELL, y: top + down * CELL, width: CELL - 2, height: CELL - 2, rx: 3,
          ...fillOf(getComputedStyle(cell).backgroundColor),
        }),
        text({ x: left + (across + 0.5) * CELL - 1, y: middle - 1, dy: "0.35em", "text-anchor": "middle", "font-size": "12px" }, cell.textContent, cell)]));
  });
  const columns = source.map((word, across) =>
    text({ transform: `translate(${left + (across + 0.5) * CELL},${top - 8}) rotate(-90)`, dy: "0.3em" }, word.text, heads[across]));
  return { picture: s("g", {}, rows, columns), width: left + source.length * CELL, height: top + output.length * CELL };
}

/** The figure of a translator as one SVG element. */
export function buildPicture(view) {
  const style = getComputedStyle(view.bands.svg), root = getComputedStyle(document.body);
  const font = { family: style.fontFamily, size: "15px", css: `15px ${style.fontFamily}` };
  const bands = copyPicture(view.bands.svg);
  const [width, height] = ["width", "height"].map((name) => Number(view.bands.svg.getAttribute(name)));
  for (const name of ["width", "height", "viewBox", "style"]) bands.removeAttribute(name);
  const matrix = drawMatrix(view.view(), view.matrix.element, font);
  const total = { width: width + GAP + matrix.width + 2 * MARGIN, height: Math.max(height, matrix.height) + 3 * MARGIN + 40 };
  const line = (y, size, text) =>
    s("text", { x: MARGIN, y, "font-family": font.family, "font-size": size, fill: root.color }, text);
  return s("svg", {
      xmlns: "http://www.w3.org/2000/svg", width: total.width, height: total.height, viewBox: `0 0 ${total.width} ${total.height}`,
    },
    s("rect", { width: total.width, height: total.height, fill: root.backgroundColor }),
    line(MARGIN + 14, 18, view.model.settings.source ? `${view.result.source.text} → ${view.result.best.text}` : view.result.best.text),
    s("g", { transform: `translate(${MARGIN},${2 * MARGIN + 20})` }, [...bands.childNodes]),
    s("g", { transform: `translate(${MARGIN + width + GAP},${2 * MARGIN + 20})` }, matrix.picture),
    line(total.height - 12, 12, `${view.model.settings.name} · ${view.model.settings.note}`));
}

const WIDE = 760, WORD_LINE = 34, BAR_LINE = 26;

/** The figure of a classifier as one SVG element: its words, coloured by their weight, and the probabilities of its labels. */
export function buildLabelPicture(view) {
  const { source, probabilities, order } = view.result, { settings } = view.model;
  const style = getComputedStyle(view.parts.words), root = getComputedStyle(document.body);
  const css = `18px ${style.fontFamily}`, band = getComputedStyle(view.element.querySelector(".fill")).backgroundColor;
  const text = (x, y, words, size = 18, more = {}) => s("text", { x, y, "font-family": style.fontFamily, "font-size": size, fill: root.color, ...more }, words);
  const weights = view.model.wordWeights(view.result), fillOf = colourReader();
  const chips = view.parts.words.children, track = fillOf(getComputedStyle(view.element.querySelector(".track")).backgroundColor);
  let [x, y] = [MARGIN, MARGIN + 20];
  const words = source.words.map((word, place) => {
    const width = widthOf(word, css) + 10;
    if (x + width > WIDE - MARGIN && x > MARGIN) [x, y] = [MARGIN, y + WORD_LINE];
    const left = x;
    x += width + 4;
    return [s("rect", { x: left, y: y - 19, width, height: 26, rx: 5, ...fillOf(getComputedStyle(chips[place]).backgroundColor) }),
      text(left + 5, y, word, 18, wordStyle(chips[place]))];
  });
  const top = y + WORD_LINE, shown = order.slice(0, MOST_BARS);
  const bars = shown.map((label, place) => {
    const line = top + place * BAR_LINE + 16, length = 300;
    return [text(MARGIN, line, shorten(settings.labels[label], 190, `15px ${style.fontFamily}`), 15),
      s("rect", { x: MARGIN + 200, y: line - 11, width: length, height: 12, rx: 3, ...track }),
      s("rect", { x: MARGIN + 200, y: line - 11, width: (length * probabilities[label]).toFixed(1), height: 12, rx: 3, fill: band }),
      text(MARGIN + 212 + length, line, percent(probabilities[label]), 15)];
  });
  const height = top + shown.length * BAR_LINE + 2 * MARGIN + 8;
  return s("svg", { xmlns: "http://www.w3.org/2000/svg", width: WIDE, height, viewBox: `0 0 ${WIDE} ${height}` },
    s("rect", { width: WIDE, height, fill: root.backgroundColor }), words, bars,
    text(MARGIN, height - MARGIN - 14, `${settings.name} · the darkest word has ${percent(Math.max(...weights))} of the weight`, 12),
    text(MARGIN, height - MARGIN + 4, shorten(settings.faithfulness || settings.note, WIDE - 2 * MARGIN, `12px ${style.fontFamily}`), 12));
}

/** Draw an SVG element as PNG, twice as large. */
export async function renderPng(picture) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.width;
  canvas.height = 2 * image.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

const cut = (data, width) => Array.from({ length: data.length / width }, (_, row) => [...data.subarray(row * width, (row + 1) * width)]);

/** Split weights (layers, heads, rows, columns) into one matrix for each head, by layer. */
function layersOf({ data, sizes: [layers, heads, rows, columns] }, family) {
  const size = rows * columns, found = {};
  for (let layer = 0; layer < layers; layer++) {
    found[`${family}.${layer}`] = Array.from({ length: heads }, (_, head) =>
      cut(data.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size), columns));
  }
  return found;
}

/** Return the weights of all steps for each layer and head; `key` is the name of these weights in a step's attention. */
function stepsByHead(path, family, key, width) {
  const [layers, heads] = path[0].attention[key].sizes, found = {};
  for (let layer = 0; layer < layers; layer++) {
    found[`${family}.${layer}`] = Array.from({ length: heads }, (_, head) => path.map((step) => {
      const { data, sizes } = step.attention[key], length = sizes[2], at = (layer * heads + head) * length;
      return [...data.subarray(at, at + length), ...Array(width - length).fill(0)];
    }));
  }
  return found;
}

/** The version of a record's format, and the units of its words; see `AttentionRecord.source_scheme`. */
const unitsOf = (version, source, target = "") =>
  (source || target ? { format_version: 4, source_scheme: source, target_scheme: target } : { format_version: version });

/** The record of a language model's text. */
export function recordOfText(view) {
  const { source, best } = view.result, { path } = best;
  return {
    ...unitsOf(3, "", source.scheme), target_is_read: true, source_tokens: [], source_words: [], source_word_of: [],
    target_tokens: source.tokens.map((id) => view.model.target.tokens[id]), target_words: source.words, target_word_of: source.wordOf,
    source_text: source.text, target_text: best.text, score: null, log_probability: Math.min(best.logProbability, 0), reference: null,
    note: view.model.settings.note, weights: stepsByHead(path, "decoder", "heads", path.length),
  };
}

/** The record of a translation, in the format of regard's AttentionRecord. */
export function recordOf(view) {
  const { source, best, within } = view.result, { model } = view, { path } = best;
  const weights = { cross: path.map((step) => [...step.attention.cross]) };
  if (path[0].attention.heads) {
    Object.assign(weights, stepsByHead(path, "cross", "heads", source.tokens.length), stepsByHead(path, "decoder", "own", path.length));
  }
  if (within) Object.assign(weights, layersOf(within, "encoder"));
  return {
    ...unitsOf(1, source.scheme, best.scheme),
    source_tokens: source.tokens.map((id) => model.source.tokens[id]),
    target_tokens: path.map((step) => model.target.tokens[step.token]),
    source_words: source.words, target_words: best.words, source_word_of: source.wordOf, target_word_of: best.wordOf,
    source_text: source.text, target_text: best.text, score: best.score, log_probability: best.logProbability, reference: null,
    note: model.settings.note, weights,
  };
}

/** The record of a classification. */
export function recordOfLabels(view) {
  const { source, probabilities, order, attention, label } = view.result, { model } = view;
  const tokens = source.tokens.length ? source.tokens.map((id) => model.source.tokens[id]) : [""];
  const weights = {};
  for (const [site, { data }] of Object.entries(attention)) {
    const rows = site.startsWith("encoder") ? tokens.length : 1, size = rows * tokens.length;
    const heads = Array.from({ length: data.length / size }, (_, head) => cut(data.subarray(head * size, (head + 1) * size), tokens.length));
    weights[site] = heads.length === 1 ? heads[0] : heads;
  }
  return {
    ...unitsOf(2, source.scheme), source_tokens: tokens, target_tokens: [label], source_words: source.words, target_words: [label],
    source_word_of: source.tokens.length ? source.wordOf : [-1], target_word_of: [0], source_text: source.text, target_text: label,
    score: null, log_probability: null, reference: null, note: model.settings.faithfulness || model.settings.note,
    probabilities: Object.fromEntries(order.map((place) => [model.settings.labels[place], probabilities[place]])), weights,
  };
}

/** Offer a file for download. */
export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
