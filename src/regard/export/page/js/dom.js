// Small helpers that build elements. Text goes in as text nodes only, so that no word can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Build an HTML element: `h("button", {class: "x", onclick: f}, "text", …)`. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** Build an SVG element. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

const context = document.createElement("canvas").getContext("2d");

/** The width of a text in a font. */
export function widthOf(text, font) {
  context.font = font;
  return context.measureText(text).width;
}

/** Shorten a text to a width. */
export function shorten(text, width, font) {
  if (widthOf(text, font) <= width) return text;
  const characters = [...text];
  while (characters.length > 1 && widthOf(characters.join("") + "…", font) > width) characters.pop();
  return characters.join("") + "…";
}

/** Return a token as elements; the marks of spaces (␣) are drawn paler than the letters. */
export const drawToken = (text) => text.split("␣").flatMap((part, place) => (place ? [h("span", { class: "space" }, "␣"), part] : [part]));

export const percent = (share) => (share > 0 && share < 0.005 ? "<1%" : `${Math.round(100 * share)}%`);

/** Format a number with a fixed number of decimal places, and with a true minus sign if it is negative. */
export const decimal = (number, digits) => number.toFixed(digits).replace("-", "−");

/** Whether the words of a text run from right to left. */
export const isRightToLeft = (text) => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(text);

/** Redraw, and put the focus back on the element with the same data-key. */
export function keepFocus(container, redraw) {
  const key = container.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  redraw();
  if (key !== undefined) [...container.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
}
