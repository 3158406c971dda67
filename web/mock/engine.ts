// A Transformer in f64 that keeps everything: activations by hook name, and the residual stream as a sum of named parts.
import type { Intervention, Kind, Part } from '../src/lib/api/types';
import { type Matrix, type NormWeights, add, clone, columns, dot, gelu, layerNorm, linear, matrix, normPart, rowOf, softmax } from './matrix';

export interface AttentionWeights {
  wq: Matrix; wk: Matrix; wv: Matrix; wo: Matrix;
  bq: Float64Array; bk: Float64Array; bv: Float64Array; bo: Float64Array;
  norm: NormWeights;
}
export interface Layer {
  attention: AttentionWeights; cross?: AttentionWeights;
  w1: Matrix; b1: Float64Array; w2: Matrix; b2: Float64Array; norm: NormWeights;
}
export interface Stack {
  kind: Kind; layers: Layer[]; heads: number; headDim: number; causal: boolean; preNorm: boolean;
  relative?: (head: number, query: number, key: number) => number;
  embedNorm?: NormWeights; finalNorm?: NormWeights;
}
export interface NamedPart { part: Part; rows: Matrix }
/// One attention of one layer as it ran.
export interface Ran {
  kind: Kind; layer: number; stack: Stack; weights: AttentionWeights;
  q: Matrix; k: Matrix; v: Matrix; z: Matrix; out: Matrix;
  causal: boolean; cut: Map<string, number>; // "head,query,key" → scale; −1: cut
  taken: Map<string, number>; // "head,query,key" → the weight of another text
  queryParts: NamedPart[]; keyParts: NamedPart[]; // after the norm: they sum to what W_Q and W_K read
}
export interface Pass {
  hooks: Map<string, Matrix>;
  stats: Map<string, { mean: Float64Array; rstd: Float64Array }>;
  attentions: Map<string, Ran>; // "kind.layer"
  parts: Map<string, NamedPart[]>; // of a stack's output
}
export function newPass(): Pass {
  return { hooks: new Map(), stats: new Map(), attentions: new Map(), parts: new Map() };
}
export type Lookup = (trace: string, hook: string) => Matrix | undefined;

const kLong = 2048; // beyond it values are not mixed: tiles of weights are all that is wanted

export function prefixOf(kind: Kind): string {
  return kind === 'self' ? '' : `${kind}.`;
}
/// The score before mask and softmax.
export function score(a: Ran, head: number, query: number, key: number): number {
  const d = a.stack.headDim;
  const from = head * d;
  let sum = 0;
  const q = query * a.q.columns + from;
  const k = key * a.k.columns + from;
  for (let i = 0; i < d; ++i) sum += a.q.data[q + i] * a.k.data[k + i];
  return sum / Math.sqrt(d) + biasOf(a, head, query, key);
}
export function biasOf(a: Ran, head: number, query: number, key: number): number {
  return a.kind !== 'cross' && a.stack.relative ? a.stack.relative(head, query, key) : 0;
}
export function visible(a: Ran, head: number, query: number, key: number): boolean {
  if (a.causal && key > query) return false;
  return !a.cut.size || (a.cut.get(`${head},${query},${key}`) !== -1 && a.cut.get(`-1,${query},${key}`) !== -1);
}
export function scoresRow(a: Ran, head: number, query: number): Float64Array {
  const y = new Float64Array(a.k.rows);
  const last = a.causal ? query : a.k.rows - 1;
  for (let j = 0; j < y.length; ++j) y[j] = j <= last && visible(a, head, query, j) ? score(a, head, query, j) : -Infinity;
  return y;
}
export function weightsRow(a: Ran, head: number, query: number): Float64Array {
  const y = softmax(scoresRow(a, head, query));
  if (a.cut.size) {
    for (let j = 0; j < y.length; ++j) {
      const scale = a.cut.get(`${head},${query},${j}`) ?? a.cut.get(`-1,${query},${j}`);
      if (scale !== undefined && scale >= 0) y[j] *= scale;
    }
  }
  for (const [edge, weight] of a.taken) {
    const [h, i, j] = edge.split(',').map(Number);
    if (i === query && (h === head || h === -1)) y[j] = weight;
  }
  return y;
}

class Runner {
  constructor(readonly pass: Pass, readonly interventions: Intervention[], readonly lookup: Lookup) {}

  hook(name: string, value: Matrix): Matrix {
    let y = value;
    for (const change of this.interventions) {
      if ((change.type === 'position' || change.type === 'patch') && change.hook === name) {
        y = clone(y);
        if (change.type === 'position') this.ablate(y, change);
        else this.patch(y, change, name);
      }
    }
    this.pass.hooks.set(name, y);
    return y;
  }
  private ablate(y: Matrix, change: Extract<Intervention, { type: 'position' }>) {
    const mean = new Float64Array(y.columns);
    for (let r = 0; r < y.rows; ++r) rowOf(y, r).forEach((v, c) => (mean[c] += v / y.rows));
    const row = rowOf(y, change.position);
    for (let c = 0; c < row.length; ++c) row[c] = change.mode === 'mean' ? mean[c] : change.mode === 'zero' ? 0 : row[c] * (change.scale ?? 1);
  }
  private patch(y: Matrix, change: Extract<Intervention, { type: 'patch' }>, name: string) {
    const from = this.lookup(change.from, name);
    if (!from) throw new Error(`patch: no ${name} in trace ${change.from}`);
    const rows = change.position === null ? [...Array(y.rows).keys()] : [change.position];
    for (const r of rows) {
      const source = rowOf(from, change.from_position ?? r);
      const width = change.head === undefined ? y.columns : y.columns / this.heads(name);
      const begin = (change.head ?? 0) * width;
      rowOf(y, r).set(source.subarray(begin, begin + width), begin);
    }
  }
  private headCount = 1;
  private heads(name: string): number {
    return name.endsWith('hook_z') ? this.headCount : 1;
  }

  /// One attention with its residual: returns what is added, and its parts by head.
  attend(stack: Stack, kind: Kind, layer: number, w: AttentionWeights, input: Matrix, memory: Matrix, place: string,
         queryParts: NamedPart[], keyParts: NamedPart[]): { out: Matrix; parts: NamedPart[] } {
    const q = linear(input, w.wq, w.bq);
    const k = linear(memory, w.wk, w.bk);
    const v = linear(memory, w.wv, w.bv);
    this.headCount = stack.heads;
    const causal = stack.causal && kind !== 'cross' && !this.interventions.some((i) => i.type === 'causal');
    const cut = new Map<string, number>();
    for (const i of this.interventions) {
      if (i.type === 'edge' && i.mode !== 'patch' && i.kind === kind && i.layer === layer) cut.set(`${i.head},${i.query},${i.key}`, i.mode === 'cut' ? -1 : (i.scale ?? 1));
    }
    const ran: Ran = { kind, layer, stack, weights: w, q, k, v, z: matrix(q.rows, q.columns), out: q, causal, cut, taken: new Map(), queryParts, keyParts };
    for (const i of this.interventions) {
      if (i.type !== 'edge' || i.mode !== 'patch' || i.kind !== kind || i.layer !== layer) continue;
      const other: Ran = { ...ran, q: this.lookup(i.from ?? '', `${place}.hook_q`) ?? q, k: this.lookup(i.from ?? '', `${place}.hook_k`) ?? k, cut: new Map(), taken: new Map() };
      ran.taken.set(`${i.head},${i.query},${i.key}`, weightsRow(other, i.head, i.query)[i.key]);
    }
    const d = stack.headDim;
    if (q.rows <= kLong) {
      for (let h = 0; h < stack.heads; ++h) {
        const change = this.interventions.find((i) => i.type === 'head' && i.kind === kind && i.layer === layer && i.head === h);
        const scale = change && change.type === 'head' ? change.scale : 1;
        for (let i = 0; i < q.rows; ++i) {
          const weights = weightsRow(ran, h, i);
          const out = rowOf(ran.z, i);
          for (let j = 0; j < weights.length; ++j) {
            if (weights[j] === 0) continue;
            for (let c = h * d; c < (h + 1) * d; ++c) out[c] += scale * weights[j] * v.data[j * v.columns + c];
          }
        }
      }
    }
    ran.z = this.hook(`${place}.hook_z`, ran.z);
    this.pass.attentions.set(`${kind}.${layer}`, ran);
    this.pass.hooks.set(`${place}.hook_q`, q).set(`${place}.hook_k`, k).set(`${place}.hook_v`, v);
    const parts: NamedPart[] = [];
    for (let h = 0; h < stack.heads && q.rows <= kLong; ++h) {
      const wo: Matrix = { rows: d, columns: w.wo.columns, data: w.wo.data.subarray(h * d * w.wo.columns, (h + 1) * d * w.wo.columns) };
      parts.push({ part: { name: `${place}.head.${h}`, type: 'head', kind, layer, head: h }, rows: linear(columns(ran.z, h * d, (h + 1) * d), wo) });
    }
    const bias = matrix(q.rows, w.wo.columns);
    for (let r = 0; r < q.rows; ++r) rowOf(bias, r).set(w.bo);
    parts.push({ part: { name: `${place}.b_O`, type: 'attention_bias', kind, layer }, rows: bias });
    const out = linear(ran.z, w.wo, w.bo);
    ran.out = out;
    return { out, parts };
  }

  norm(name: string, x: Matrix, w: NormWeights, parts: NamedPart[]): { y: Matrix; parts: NamedPart[] } {
    const { y, mean, rstd } = layerNorm(x, w);
    this.pass.stats.set(name, { mean, rstd });
    const bias = matrix(x.rows, x.columns);
    for (let r = 0; r < x.rows; ++r) rowOf(bias, r).set(w.bias);
    if (x.rows > kLong) return { y: this.hook(`${name}.hook_normalized`, y), parts: [] };
    const scaled = parts.map((p) => ({ part: p.part, rows: normPart(p.rows, w, rstd) }));
    return { y: this.hook(`${name}.hook_normalized`, y), parts: [...scaled, { part: { name: `${name}.b`, type: 'norm_bias' as const }, rows: bias }] };
  }

  run(stack: Stack, x: Matrix, parts: NamedPart[], memory?: { rows: Matrix; parts: NamedPart[] }): { rows: Matrix; parts: NamedPart[] } {
    const stackPrefix = prefixOf(stack.kind);
    if (stack.embedNorm) ({ y: x, parts } = this.norm(`${stackPrefix}embed_norm`, x, stack.embedNorm, parts));
    stack.layers.forEach((layer, l) => {
      const place = `${stackPrefix}blocks.${l}`;
      x = this.hook(`${place}.hook_resid_pre`, x);
      const step = (name: string, w: NormWeights, hook: string, part: (input: Matrix, inputParts: NamedPart[]) => { out: Matrix; parts: NamedPart[] }) => {
        const read = stack.preNorm ? this.norm(name, x, w, parts) : { y: x, parts };
        const made = part(read.y, read.parts);
        const out = this.hook(hook, made.out);
        x = add(x, out);
        parts = [...parts, ...made.parts];
        if (!stack.preNorm) ({ y: x, parts } = this.norm(name, x, w, parts));
      };
      step(`${place}.ln1`, layer.attention.norm, `${place}.hook_attn_out`, (input, inputParts) =>
        this.attend(stack, stack.kind, l, layer.attention, input, input, `${place}.attn`, inputParts, inputParts));
      x = this.hook(`${place}.hook_resid_mid`, x);
      if (layer.cross && memory) {
        const cross = layer.cross;
        step(`${place}.ln_cross`, cross.norm, `${place}.hook_cross_attn_out`, (input, inputParts) =>
          this.attend(stack, 'cross', l, cross, input, memory.rows, `${place}.cross_attn`, inputParts, memory.parts));
      }
      step(`${place}.ln2`, layer.norm, `${place}.hook_mlp_out`, (input) => {
        const pre = this.hook(`${place}.mlp.hook_pre`, linear(input, layer.w1, layer.b1));
        const post = clone(pre);
        post.data.forEach((v, i) => (post.data[i] = gelu(v)));
        const out = linear(this.hook(`${place}.mlp.hook_post`, post), layer.w2, layer.b2);
        return { out, parts: [{ part: { name: `${place}.mlp`, type: 'mlp', kind: stack.kind, layer: l }, rows: out }] };
      });
      x = this.hook(`${place}.hook_resid_post`, x);
    });
    if (stack.finalNorm) ({ y: x, parts } = this.norm(`${stackPrefix}ln_final`, x, stack.finalNorm, parts));
    this.pass.parts.set(stack.kind, parts);
    return { rows: x, parts };
  }
}

export function runner(pass: Pass, interventions: Intervention[], lookup: Lookup): Runner {
  return new Runner(pass, interventions, lookup);
}
export type { Runner };

/// The score split over pairs of parts, and the bias of W_Q and W_K as parts of their own.
export function whyScore(a: Ran, head: number, query: number, key: number) {
  const d = a.stack.headDim;
  const project = (parts: NamedPart[], position: number, w: Matrix, bias: Float64Array, name: string) => {
    const from = columns(w, head * d, (head + 1) * d);
    const rows = parts.map((p) => ({ part: p.part, vector: linear({ rows: 1, columns: p.rows.columns, data: rowOf(p.rows, position) }, from).data }));
    return [...rows, { part: { name, type: 'bias' as const } as Part, vector: bias.slice(head * d, (head + 1) * d) }];
  };
  const q = project(a.queryParts, query, a.weights.wq, a.weights.bq, 'b_Q');
  const k = project(a.keyParts, key, a.weights.wk, a.weights.bk, 'b_K');
  const values = new Float64Array(q.length * k.length);
  q.forEach((x, i) => k.forEach((y, j) => (values[i * k.length + j] = dot(x.vector, y.vector) / Math.sqrt(d))));
  return { queryParts: q.map((p) => p.part), keyParts: k.map((p) => p.part), values };
}
