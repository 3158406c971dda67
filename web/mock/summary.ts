import { encode } from '../src/lib/api/tensor';
import type { HeadFigures } from '../src/lib/api/types';
import { type Ran, scoresRow, weightsRow } from './engine';
import { matrix, norm, rowOf } from './matrix';

/// Cells of `step` × `step` weights, each the largest; from level 3 on only a few rows of each are read.
export function pooled(a: Ran, head: number, rows: [number, number], keys: [number, number], step: number, what: string) {
  const height = Math.ceil((rows[1] - rows[0]) / step), width = Math.ceil((keys[1] - keys[0]) / step);
  const perCell = step >= 8 ? 2 : step;
  const empty = what === 'scores' ? -Infinity : 0;
  const values = new Float32Array(height * width).fill(empty);
  const heads = head >= 0 ? [head] : [...Array(a.stack.heads).keys()];
  for (let r = 0; r < height; ++r) {
    for (let n = 0; n < perCell; ++n) {
      const query = rows[0] + r * step + Math.floor((n * step) / perCell);
      if (query >= rows[1] || (a.causal && keys[0] > query)) continue;
      let line = new Float64Array(a.k.rows);
      for (const h of heads) {
        const one = what === 'scores' ? scoresRow(a, h, query) : weightsRow(a, h, query);
        line = heads.length === 1 ? (one as typeof line) : line.map((x, i) => x + one[i] / heads.length);
      }
      if (what === 'value_weighted') {
        const d = a.stack.headDim, h = Math.max(head, 0);
        line = line.map((w, j) => w * norm(rowOf(a.v, j).subarray(h * d, (h + 1) * d)));
      }
      for (let j = keys[0]; j < keys[1]; ++j) {
        const at = r * width + Math.floor((j - keys[0]) / step);
        if (line[j] > values[at]) values[at] = line[j];
      }
    }
  }
  return { values, shape: [height, width], perCell };
}

export function headFigures(a: Ran, ids: number[]): { rows_sampled: number; heads: HeadFigures[] } {
  const queries = a.q.rows, keys = a.k.rows;
  const stride = Math.max(1, Math.floor(queries / 64));
  const sampled = queries <= 1024 ? [...Array(queries).keys()] : [...Array(64).keys()].map((i) => i * stride);
  const norms = [...Array(a.stack.heads).keys()].map((h) => {
    let sum = 0;
    for (const i of sampled) sum += norm(rowOf(a.z, i).subarray(h * a.stack.headDim, (h + 1) * a.stack.headDim)) ** 2;
    return Math.sqrt(sum);
  });
  const total = norms.reduce((x, y) => x + y, 0) || 1;
  const heads = norms.map((own, head): HeadFigures => {
    const f = { diagonal: 0, previous: 0, first: 0, local: 0, uniform: 0, entropy: 0, mean_distance: 0, induction: 0 };
    let repeated = 0;
    for (const i of sampled) {
      const w = weightsRow(a, head, i);
      const n = sampled.length;
      const seen = a.causal ? i + 1 : keys;
      let entropy = 0;
      for (let j = 0; j < keys; ++j) {
        if (w[j] > 0) entropy -= w[j] * Math.log2(w[j]);
        f.mean_distance += (w[j] * Math.abs(i - j)) / n;
        if (Math.abs(i - j) <= 3) f.local += w[j] / n;
      }
      f.entropy += entropy / n;
      f.uniform += (seen > 1 ? entropy / Math.log2(seen) : 1) / n;
      f.diagonal += (w[i] ?? 0) / n;
      f.previous += (w[i - 1] ?? 0) / n;
      f.first += w[0] / n;
      let after = 0, found = false;
      for (let j = 0; j < i && ids.length; ++j) if (ids[j] === ids[i] && j + 1 <= i) { after += w[j + 1]; found = true; }
      if (found) { f.induction += after; ++repeated; }
    }
    f.induction = repeated ? f.induction / repeated : 0;
    const named: [string, number][] = [['diagonal', f.diagonal], ['previous token', f.previous], ['first token', f.first], ['induction', f.induction]];
    const best = named.sort((x, y) => y[1] - x[1])[0];
    const pattern = best[1] > 0.5 ? best[0] : f.uniform > 0.9 ? 'uniform' : f.local > 0.8 ? 'local' : 'mixed';
    const step = Math.max(1, Math.ceil(Math.max(queries, keys) / 24));
    const map = pooled(a, head, [0, queries], [0, keys], step, 'weights');
    return { head, ...f, pattern, output_share: own / total, thumbnail: encode(map.values, map.shape) };
  });
  return { rows_sampled: sampled.length, heads };
}

/// What each key passes on: weight × ‖value‖ over all heads as a fraction, mean over the layers.
export function contribution(layers: Ran[]): { values: Float32Array; shape: number[] } {
  const rows = layers[0].q.rows, columns = layers[0].k.rows, values = new Float32Array(rows * columns);
  for (const a of layers) {
    const size = a.v.columns / a.stack.heads;
    const norms = Array.from({ length: a.stack.heads }, (_, h) => Array.from({ length: columns }, (_, j) => Math.hypot(...rowOf(a.v, j).subarray(h * size, (h + 1) * size))));
    for (let i = 0; i < rows; ++i) {
      const moved = new Float64Array(columns);
      for (let h = 0; h < a.stack.heads; ++h) weightsRow(a, h, i).forEach((w, j) => (moved[j] += w * norms[h][j]));
      const total = moved.reduce((x, y) => x + y, 0) || 1;
      moved.forEach((x, j) => (values[i * columns + j] += x / total / layers.length));
    }
  }
  return { values, shape: [rows, columns] };
}

export function rollout(layers: Ran[]): { values: Float32Array; n: number } {
  const n = layers[0].q.rows;
  let product = matrix(n, n);
  for (let i = 0; i < n; ++i) product.data[i * n + i] = 1;
  for (const a of layers) {
    const next = matrix(n, n);
    for (let i = 0; i < n; ++i) {
      const mean = new Float64Array(n);
      for (let h = 0; h < a.stack.heads; ++h) weightsRow(a, h, i).forEach((w, j) => (mean[j] += w / a.stack.heads / 2));
      mean[i] += 0.5;
      const out = rowOf(next, i);
      for (let j = 0; j < n; ++j) if (mean[j] > 0) rowOf(product, j).forEach((x, c) => (out[c] += mean[j] * x));
    }
    product = next;
  }
  return { values: Float32Array.from(product.data), n };
}
