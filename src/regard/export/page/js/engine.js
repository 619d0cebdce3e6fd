// Models in onnxruntime-web. Each graph is a session; tensors are plain typed arrays with their sizes.

/* global ort */

const STATE_PREFIX = "next_";

/** Read a compressed part of the page. */
export async function readBlob(name) {
  const text = document.getElementById(`blob-${name}`).textContent;
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : decodeBase64(text);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Decode base64 in browsers without `fromBase64`. */
function decodeBase64(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

/** Start the runtime: one thread, and its WebAssembly from this page. */
export async function startRuntime() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.proxy = false;
  ort.env.logLevel = "error";
  ort.env.wasm.wasmBinary = await readBlob("onnxruntime");
}

const openGraph = async (name) =>
  ort.InferenceSession.create(await readBlob(name), { executionProviders: ["wasm"], graphOptimizationLevel: "all" });

const ids = (values, sizes) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), sizes);
const allTrue = (length) => new ort.Tensor("bool", new Uint8Array(length).fill(1), [1, length]);

/** Return the rows of a tensor (1, N, …) that the next hypotheses continue. */
function selectRows(tensor, rows) {
  const [, before, ...sizes] = tensor.dims;
  if (rows.length === before && rows.every((row, place) => row === place)) return tensor;
  const width = sizes.reduce((product, size) => product * size, 1);
  const data = new tensor.data.constructor(rows.length * width);
  rows.forEach((row, place) => data.set(tensor.data.subarray(row * width, (row + 1) * width), place * width));
  return new ort.Tensor(tensor.type, data, [1, rows.length, ...sizes]);
}

/** Split the leading axes of a tensor (1, N, …) by hypothesis. */
function byHypothesis(tensor) {
  const [, count, ...sizes] = tensor.dims;
  const width = sizes.reduce((product, size) => product * size, 1);
  return Array.from({ length: count }, (_, row) => ({ data: tensor.data.slice(row * width, (row + 1) * width), sizes }));
}

/** The mean over layers and heads, (layers, heads, length). */
function meanOf({ data, sizes: [layers, heads, length] }) {
  const mean = new Float32Array(length);
  data.forEach((weight, place) => (mean[place % length] += weight / (layers * heads)));
  return mean;
}

/** A translator: an encoder, and one step of the decoder. A language model has the step alone. */
export class DecoderEngine {
  static async open(number, settings) {
    const engine = new DecoderEngine();
    engine.encoder = settings.graphs.includes("encoder") ? await openGraph(`${number}-encoder`) : null;
    engine.decoder = await openGraph(`${number}-step`);
    engine.cache = settings.cache; // of a language model, before the first token
    engine.size = settings.target.tokens.length;
    engine.sizes = settings.layers ? [settings.layers, settings.heads] : []; // axes of overridden attention between N and S
    return engine;
  }

  /** Read a source, given as ids with the end symbol. */
  async encode(source) {
    const length = source.length;
    const mask = allTrue(length);
    const found = await this.encoder.run({ source: ids(source, [1, length]), source_mask: mask });
    const names = new Set(this.decoder.inputNames);
    const state = {}, memory = { source_mask: mask };
    for (const [name, tensor] of Object.entries(found)) {
      if (!names.has(name)) continue;
      (this.decoder.outputNames.includes(STATE_PREFIX + name) ? state : memory)[name] = tensor;
    }
    const within = found.encoder ? { data: found.encoder.data, sizes: found.encoder.dims.slice(1) } : null;
    return { state: { memory, steps: state, length }, within };
  }

  /** A language model's state before the first token. */
  begin() {
    const empty = () => new ort.Tensor("float32", new Float32Array(0), this.cache);
    return { memory: {}, steps: { own_key: empty(), own_value: empty() }, length: 0 };
  }

  /** Feed one token to each hypothesis. `override` is {weights, layer, head}; layer and head are null for all of them. */
  async step(tokens, state, override) {
    const feeds = { tokens: ids(tokens, [1, tokens.length]), ...state.memory, ...state.steps };
    const length = this.encoder ? state.length : state.length + 1; // a language model attends to its own text
    Object.assign(feeds, this.#overriding(tokens.length, length, override));
    const found = await this.decoder.run(feeds);
    const steps = {};
    for (const name of Object.keys(state.steps)) steps[name] = found[STATE_PREFIX + name];
    const [cross, heads, own] = ["cross", "cross_heads", "decoder_heads"].map((name) => (found[name] ? byHypothesis(found[name]) : null));
    const attention = cross
      ? cross.map((one, row) => ({ cross: one.data, heads: heads?.[row] ?? null, own: own?.[row] ?? null }))
      : own.map((one) => ({ cross: meanOf(one), heads: one, own: null }));
    return { logProbabilities: found.log_probabilities.data, attention, state: { ...state, steps, length } };
  }

  select(state, parents) {
    const steps = {};
    for (const [name, tensor] of Object.entries(state.steps)) steps[name] = selectRows(tensor, parents);
    return { ...state, steps };
  }

  #overriding(count, length, override) {
    const rows = this.sizes.reduce((product, size) => product * size, 1);
    const weights = new Float32Array(count * rows * length), used = new Uint8Array(count * rows);
    for (let row = 0; override && row < count * rows; row++) {
      const layer = Math.floor((row % rows) / (this.sizes[1] ?? 1)), head = row % (this.sizes[1] ?? 1);
      if (![null, layer].includes(override.layer) || ![null, head].includes(override.head)) continue;
      used[row] = 1;
      weights.set(override.weights, row * length);
    }
    return {
      override: new ort.Tensor("float32", weights, [1, count, ...this.sizes, length]),
      overridden: new ort.Tensor("bool", used, [1, count, ...this.sizes]),
    };
  }
}

/** A classifier: one graph from tokens to the scores of labels. */
export class ClassifierEngine {
  static async open(number, settings) {
    const engine = new ClassifierEngine();
    engine.graph = await openGraph(`${number}-classifier`);
    engine.settings = settings;
    return engine;
  }

  /** Return the probability of each label, and attention by site. */
  async classify(tokens) {
    const length = tokens.length;
    const found = await this.graph.run({ tokens: ids(tokens, [1, length]), mask: allTrue(length) });
    const scaled = Array.from(found.logits.data, (score) => score / this.settings.temperature);
    const attention = {};
    for (const site of this.settings.sites) {
      const tensor = found[site.replaceAll(".", "_")];
      attention[site] = { data: tensor.data, sizes: tensor.dims.slice(1) };
    }
    return { probabilities: this.settings.multiple ? scaled.map((x) => 1 / (1 + Math.exp(-x))) : softmax(scaled), attention };
  }
}

function softmax(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}
