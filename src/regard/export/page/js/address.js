// The state of the page as the fragment of its address, so that a view can be shared: #t=she+kissed+him&b=5&d=1

const SCALE = 1e4; // weights in an address are whole numbers of ten-thousandths
const LONGEST_ADDRESS_TEXT = 5000;

const numbers = (text) => (text ? text.split(",").map(Number).filter((one) => Number.isInteger(one) && one >= 0 && one < 1e6) : []);
const place = (value) => (value === null ? "" : String(value));

/** Return the state of the app as a fragment. */
export function writeAddress(app) {
  const fields = new URLSearchParams({ t: app.text });
  if (app.searches) fields.set("b", app.beamSize);
  if (app.units !== "auto") fields.set("u", app.units);
  if (app.dropped.size) fields.set("d", [...app.dropped].join(","));
  app.views.forEach((view, number) => {
    if (view.prefix?.length) fields.set(`p${number}`, view.prefix.join(","));
    if (view.step !== null && view.step !== undefined) fields.set(`k${number}`, view.step);
    if (view.site && view.site.layer !== null) fields.set(`s${number}`, `${place(view.site.layer)}.${place(view.site.head)}`);
    const edits = [...(view.edits ?? [])].map(([step, { weights, layer, head }]) =>
      [step, place(layer), place(head), [...weights].map((weight) => Math.round(weight * SCALE)).join(",")].join(":"));
    if (edits.length) fields.set(`e${number}`, edits.join(";"));
  });
  return `#${fields}`;
}

/** Read a fragment that `writeAddress` wrote or a user typed; invalid parts are ignored. Returns null without a text. */
export function readAddress(fragment, models) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = fields.get("t");
  if (text === null) return null;
  const site = (text) => {
    const [layer, head] = (text ?? "").split(".").map((one) => (/^\d{1,3}$/.test(one) ? Number(one) : null));
    return { layer: layer ?? null, head: layer === null ? null : head ?? null };
  };
  const fits = (one, settings) =>
    one.layer === null || (one.layer < (settings.layers ?? 0) && (one.head === null || one.head < settings.heads));
  const views = models.map((settings, number) => {
    const chosen = site(fields.get(`s${number}`));
    const edits = new Map();
    for (const part of (fields.get(`e${number}`) ?? "").split(";").filter(Boolean)) {
      const [step, layer, head, weights] = part.split(":");
      const edit = { weights: Float32Array.from(numbers(weights), (one) => Math.min(one, SCALE) / SCALE), ...site(`${layer}.${head}`) };
      if (/^\d{1,3}$/.test(step) && fits(edit, settings)) edits.set(Number(step), edit);
    }
    const size = settings.target?.tokens.length ?? 0;
    return {
      prefix: numbers(fields.get(`p${number}`)).filter((id) => id !== 0 && id !== 2 && id < size),
      step: /^\d{1,3}$/.test(fields.get(`k${number}`) ?? "") ? Number(fields.get(`k${number}`)) : null,
      site: fits(chosen, settings) ? chosen : { layer: null, head: null },
      edits,
    };
  });
  const beam = Number(fields.get("b"));
  return {
    text: text.slice(0, LONGEST_ADDRESS_TEXT), dropped: new Set(numbers(fields.get("d"))), views,
    units: ["words", "tokens"].includes(fields.get("u")) ? fields.get("u") : "auto",
    beamSize: Number.isInteger(beam) && beam >= 1 && beam <= 20 ? beam : null,
  };
}
