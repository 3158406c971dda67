// The attention formula once more, in f64, from the engine's own q, k and v: what the page shows step by step, and what it checks
// the engine's weights against.
import { numbers } from '../api/tensor';
import type { HeadData, Steps } from '../api/types';

export interface HeadNumbers {
  queries: number; keys: number; headDim: number; valueDim: number; first: number; firstKey: number;
  scale: number; softcap: number; causal: boolean; offset: number; window: number | null;
  q: Float32Array; k: Float32Array; v: Float32Array; z: Float32Array;
  bias: Float32Array | null; mask: Uint8Array | null;
  lse: Float32Array; complete: boolean; // whether the block has all keys; otherwise weights are normalised by the engine's lse
}
/// `row`: of the block, whose values are wanted; a global token's are others.
export function headNumbers(data: HeadData, allKeys: number, row = -1): HeadNumbers {
  const global = data.global && row >= 0 && numbers(data.global.rows)[row] ? data.global : null;
  return {
    queries: data.q.shape[0], keys: data.k.shape[0], headDim: data.q.shape[1], valueDim: data.v.shape[1],
    first: data.queries[0], firstKey: data.keys[0],
    scale: data.scale, softcap: data.softcap, causal: data.causal, offset: data.offset, window: data.window,
    q: numbers(data.q) as Float32Array, k: numbers(data.k) as Float32Array, v: numbers(global?.v ?? data.v) as Float32Array, z: numbers(data.z) as Float32Array,
    bias: data.bias && (numbers(data.bias) as Float32Array), mask: data.mask && (numbers(data.mask) as Uint8Array),
    lse: numbers(data.lse) as Float32Array, complete: data.k.shape[0] === allKeys,
  };
}
/// Whether query row r of the block may attend to key column c of the block.
export function mayAttend(h: HeadNumbers, r: number, c: number): boolean {
  const query = h.first + r + h.offset;
  const key = h.firstKey + c;
  if (h.causal && key > query) return false;
  if (h.window !== null && Math.abs(query - key) >= h.window) return false; // it counts the query itself
  return h.mask ? h.mask[r * h.keys + c] !== 0 : true;
}
export interface RowSteps { products: Float64Array; scaled: Float64Array; masked: Float64Array; exponentials: Float64Array; sum: number; largest: number; weights: Float64Array }

/// Every step of the formula for one query row. `scale` and `useMask` replace the head's own where given.
export function rowSteps(h: HeadNumbers, r: number, scale = h.scale, useMask = true): RowSteps {
  const products = new Float64Array(h.keys);
  const scaled = new Float64Array(h.keys);
  const masked = new Float64Array(h.keys);
  let largest = -Infinity;
  for (let c = 0; c < h.keys; ++c) {
    let sum = 0;
    for (let i = 0; i < h.headDim; ++i) sum += h.q[r * h.headDim + i] * h.k[c * h.headDim + i];
    products[c] = sum;
    let x = sum * scale;
    if (h.softcap > 0) x = h.softcap * Math.tanh(x / h.softcap);
    scaled[c] = x + (h.bias ? h.bias[r * h.keys + c] : 0);
    masked[c] = !useMask || mayAttend(h, r, c) ? scaled[c] : -Infinity;
    largest = Math.max(largest, masked[c]);
  }
  const exponentials = new Float64Array(h.keys);
  let sum = 0;
  for (let c = 0; c < h.keys && largest > -Infinity; ++c) sum += exponentials[c] = Math.exp(masked[c] - largest);
  if (!h.complete && scale === h.scale && useMask) sum = Math.exp(h.lse[r] - largest);
  const weights = exponentials.map((x) => (sum > 0 ? x / sum : 0));
  return { products, scaled, masked, exponentials, sum, largest, weights };
}
/// The column of the key that is looked at: the chosen one, otherwise the one with the most weight.
export function keyOf(h: HeadNumbers, own: RowSteps, chosen: number): number {
  if (chosen >= h.firstKey && chosen < h.firstKey + h.keys) return chosen - h.firstKey;
  return own.weights.reduce((best, w, i) => (w > own.weights[best] ? i : best), 0);
}
export function allWeights(h: HeadNumbers): Float32Array {
  const y = new Float32Array(h.queries * h.keys);
  for (let r = 0; r < h.queries; ++r) y.set(rowSteps(h, r).weights, r * h.keys);
  return y;
}
/// What a row is before its position is added: the engine's own, or the difference where it has a sum only (a recording's frames).
export function embeddingOf(s: Steps): ArrayLike<number> | null {
  if (s.embed) return numbers(s.embed);
  if (!s.pos_embed || !s.embed_sum || s.embed_norm) return null;
  const position = numbers(s.pos_embed);
  return Array.from(numbers(s.embed_sum), (x, i) => x - position[i]);
}
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < a.length; ++i) {
    const d = Math.abs(a[i] - b[i]);
    if (!(d <= most)) most = d; // NaN is a difference, too
  }
  return most;
}
export function entropyBits(weights: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < weights.length; ++i) if (weights[i] > 0) sum -= weights[i] * Math.log2(weights[i]);
  return sum;
}
/// softmax(logits / temperature), the most probable first.
export function sortedProbabilities(logits: ArrayLike<number>, temperature: number): Float64Array {
  const sorted = Float64Array.from(logits).sort().reverse();
  const largest = sorted[0];
  let sum = 0;
  for (let i = 0; i < sorted.length; ++i) sum += sorted[i] = Math.exp((sorted[i] - largest) / temperature);
  return sorted.map((x) => x / sum);
}
/// What top-k and top-p sampling leave of sorted probabilities: the first k (0: no limit), and of them as many as it takes to
/// reach the sum p. The most probable token always stays.
export function keptBySampling(sorted: ArrayLike<number>, k: number, p: number): { count: number; sum: number } {
  let count = 0, sum = 0;
  while (count < sorted.length && (count === 0 || ((k === 0 || count < k) && sum < p))) sum += sorted[count++];
  return { count, sum };
}
/// softmax(logits / temperature), the `count` most probable.
export function topProbabilities(logits: ArrayLike<number>, temperature: number, count: number): { id: number; probability: number }[] {
  let largest = -Infinity;
  for (let i = 0; i < logits.length; ++i) largest = Math.max(largest, logits[i]);
  let sum = 0;
  for (let i = 0; i < logits.length; ++i) sum += Math.exp((logits[i] - largest) / temperature);
  const best: number[] = [];
  for (let i = 0; i < logits.length; ++i) {
    if (best.length === count && logits[i] <= logits[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && logits[best[at - 1]] < logits[i]) --at;
    best.splice(at, 0, i);
    best.length = Math.min(best.length, count);
  }
  return best.map((id) => ({ id, probability: Math.exp((logits[id] - largest) / temperature) / sum }));
}
