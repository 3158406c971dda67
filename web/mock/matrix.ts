// Just enough linear algebra in f64 for a model of a few thousand parameters.

export interface Matrix { rows: number; columns: number; data: Float64Array }

export function matrix(rows: number, columns: number): Matrix {
  return { rows, columns, data: new Float64Array(rows * columns) };
}
export function rowOf(m: Matrix, r: number): Float64Array {
  return m.data.subarray(r * m.columns, (r + 1) * m.columns);
}
export function clone(m: Matrix): Matrix {
  return { ...m, data: m.data.slice() };
}
export function add(a: Matrix, b: Matrix): Matrix {
  const y = clone(a);
  for (let i = 0; i < y.data.length; ++i) y.data[i] += b.data[i];
  return y;
}
/// x [n, a] · w [a, b] (+ bias [b])
export function linear(x: Matrix, w: Matrix, bias?: Float64Array): Matrix {
  const y = matrix(x.rows, w.columns);
  for (let r = 0; r < x.rows; ++r) {
    const out = rowOf(y, r);
    if (bias) out.set(bias);
    for (let i = 0; i < x.columns; ++i) {
      const value = x.data[r * x.columns + i];
      if (value === 0) continue;
      const from = i * w.columns;
      for (let c = 0; c < w.columns; ++c) out[c] += value * w.data[from + c];
    }
  }
  return y;
}
/// Columns [from, to) as a matrix of their own.
export function columns(m: Matrix, from: number, to: number): Matrix {
  const y = matrix(m.rows, to - from);
  for (let r = 0; r < m.rows; ++r) rowOf(y, r).set(rowOf(m, r).subarray(from, to));
  return y;
}
export function rowsOf(m: Matrix, from: number, to: number): Matrix {
  return { rows: to - from, columns: m.columns, data: m.data.subarray(from * m.columns, to * m.columns) };
}
export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; ++i) sum += a[i] * b[i];
  return sum;
}
export function norm(a: ArrayLike<number>): number {
  return Math.sqrt(dot(a, a));
}
export function f32(m: { data: Float64Array }): Float32Array {
  return Float32Array.from(m.data);
}

/// Numbers that depend on the seed only (mulberry32 and Box-Muller).
export function gaussian(seed: number): () => number {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}
export function random(rows: number, cols: number, scale: number, next: () => number): Matrix {
  const m = matrix(rows, cols);
  for (let i = 0; i < m.data.length; ++i) m.data[i] = next() * scale;
  return m;
}

/// x ↦ (x − mean) · rstd · gain + bias, by rows; the statistics are kept.
export interface Normed { y: Matrix; mean: Float64Array; rstd: Float64Array }
export interface NormWeights { gain: Float64Array; bias: Float64Array }
export function layerNorm(x: Matrix, w: NormWeights): Normed {
  const y = matrix(x.rows, x.columns);
  const mean = new Float64Array(x.rows);
  const rstd = new Float64Array(x.rows);
  for (let r = 0; r < x.rows; ++r) {
    const a = rowOf(x, r);
    let m = 0;
    for (const v of a) m += v / a.length;
    let s = 0;
    for (const v of a) s += ((v - m) * (v - m)) / a.length;
    mean[r] = m;
    rstd[r] = 1 / Math.sqrt(s + 1e-5);
    const out = rowOf(y, r);
    for (let c = 0; c < a.length; ++c) out[c] = (a[c] - m) * rstd[r] * w.gain[c] + w.bias[c];
  }
  return { y, mean, rstd };
}
/// The same for one part of a sum: its own mean, the whole's scale, no bias.
export function normPart(part: Matrix, w: NormWeights, rstd: Float64Array): Matrix {
  const y = matrix(part.rows, part.columns);
  for (let r = 0; r < part.rows; ++r) {
    const a = rowOf(part, r);
    let m = 0;
    for (const v of a) m += v / a.length;
    const out = rowOf(y, r);
    for (let c = 0; c < a.length; ++c) out[c] = (a[c] - m) * rstd[r] * w.gain[c];
  }
  return y;
}
export function gelu(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
}
export function softmax(scores: ArrayLike<number>): Float64Array {
  let top = -Infinity;
  for (let i = 0; i < scores.length; ++i) top = Math.max(top, scores[i]);
  const y = new Float64Array(scores.length);
  if (top === -Infinity) return y;
  let sum = 0;
  for (let i = 0; i < y.length; ++i) sum += y[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < y.length; ++i) y[i] /= sum;
  return y;
}
