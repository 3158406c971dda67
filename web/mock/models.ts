// Four tiny models with seeded weights. The GPT is wired by hand to do what trained ones learn: layer 0 has a previous-token
// head, layer 1 an induction head that reads what it wrote, so ablations and patches have visible effects.
import type { Intervention, Kind, Model, Token } from '../src/lib/api/types';
import { type AttentionWeights, type Layer, type Lookup, type NamedPart, type Pass, type Stack, newPass, runner } from './engine';
import { type Matrix, type NormWeights, add, gaussian, linear, matrix, random, rowOf, rowsOf } from './matrix';
import { tokenize, vocabulary } from './tokenizer';

const hidden = 48, headDim = 8, heads = 4, inner = 96;

export interface MockModel {
  info: Model;
  style: 'gpt' | 'bert' | 'seq2seq' | 'vit';
  stacks: Stack[];
  embedding: Matrix; positions: (index: number) => Float64Array; segments?: Matrix;
  head: Matrix; // [hidden, outputs]
  labels: string[];
}

function normWeights(next: () => number): NormWeights {
  return { gain: Float64Array.from({ length: hidden }, () => 1 + 0.05 * next()), bias: Float64Array.from({ length: hidden }, () => 0.02 * next()) };
}
function attentionWeights(next: () => number, gain: number): AttentionWeights {
  const width = heads * headDim;
  const vector = (n: number) => Float64Array.from({ length: n }, () => 0.02 * next());
  return {
    wq: random(hidden, width, gain / Math.sqrt(hidden), next), wk: random(hidden, width, gain / Math.sqrt(hidden), next),
    wv: random(hidden, width, 0.8 / Math.sqrt(hidden), next), wo: random(width, hidden, 0.5 / Math.sqrt(width), next),
    bq: vector(width), bk: vector(width), bv: vector(width), bo: vector(hidden), norm: normWeights(next),
  };
}
function layer(next: () => number, cross: boolean, gain = 1.6): Layer {
  return {
    attention: attentionWeights(next, gain), cross: cross ? attentionWeights(next, 2.2) : undefined,
    w1: random(hidden, inner, 1 / Math.sqrt(hidden), next), b1: Float64Array.from({ length: inner }, () => 0.05 * next()),
    w2: random(inner, hidden, 0.4 / Math.sqrt(inner), next), b2: Float64Array.from({ length: hidden }, () => 0.02 * next()), norm: normWeights(next),
  };
}
/// Sinusoids in dimensions 16 … 31: a rotation moves them by one position.
function sinusoid(position: number): Float64Array {
  const y = new Float64Array(hidden);
  for (let i = 0; i < 8; ++i) {
    const angle = position / 3 ** i;
    y[16 + 2 * i] = Math.sin(angle);
    y[17 + 2 * i] = Math.cos(angle);
  }
  return y;
}
function wire(w: Matrix, from: number, to: number, value: number) {
  w.data[from * w.columns + to] = value;
}
function clearHead(w: AttentionWeights, head: number) {
  for (const m of [w.wq, w.wk, w.wv]) for (let r = 0; r < m.rows; ++r) rowOf(m, r).fill(0, head * headDim, (head + 1) * headDim);
  for (let i = head * headDim; i < (head + 1) * headDim; ++i) rowOf(w.wo, i).fill(0);
}
function wireGpt(stack: Stack) {
  const [first, second] = stack.layers.map((l) => l.attention);
  clearHead(first, 0);
  for (let i = 0; i < 4; ++i) { // query: the position before, by rotation; key: the position itself
    const angle = -1 / 3 ** i, s = 16 + 2 * i, c = s + 1;
    wire(first.wq, s, 2 * i, 3.2 * Math.cos(angle)); wire(first.wq, c, 2 * i, 3.2 * Math.sin(angle));
    wire(first.wq, s, 2 * i + 1, -3.2 * Math.sin(angle)); wire(first.wq, c, 2 * i + 1, 3.2 * Math.cos(angle));
    wire(first.wk, s, 2 * i, 1.6); wire(first.wk, c, 2 * i + 1, 1.6);
  }
  for (let i = 0; i < 8; ++i) { wire(first.wv, i, i, 1); wire(first.wo, i, 32 + i, 2); }
  clearHead(first, 1); // attends to the same token
  for (let i = 0; i < 8; ++i) { wire(first.wq, i, 8 + i, 1.5); wire(first.wk, i, 8 + i, 1.5); wire(first.wv, i + 8, 8 + i, 0.5); wire(first.wo, 8 + i, 40 + i, 0.5); }
  clearHead(second, 0); // induction: where did this token stand before, and what followed?
  for (let i = 0; i < 8; ++i) { wire(second.wq, i, i, 2.4); wire(second.wk, 32 + i, i, 2); wire(second.wv, i, i, 1.6); wire(second.wo, i, i, 3); }
}

function info(partial: Partial<Model> & Pick<Model, 'id' | 'name' | 'model_type' | 'family' | 'answers'>, stacks: Stack[]): Model {
  const attentions = stacks.flatMap((s) => {
    const one = (kind: Kind, causal: boolean) => ({ kind, layers: s.layers.length, heads, kv_heads: heads, head_dim: headDim, causal, scale: 1 / Math.sqrt(headDim), softcap: 0, window: null });
    return s.layers[0].cross ? [one(s.kind, s.causal), one('cross', false)] : [one(s.kind, s.causal)];
  });
  return {
    inputs: { text: true, pair: false, target: false, image: false, audio: false, features: false }, attentions,
    hidden_size: hidden, intermediate_size: inner, vocab_size: vocabulary.length, max_positions: 32768, parameters: 110_592,
    norm: 'pre', norm_type: 'layernorm', activation: 'gelu', gated: false, position: 'sinusoidal', mask_token: null, patch: null, image: null,
    can: { why: true, lens: true, neurons: true, generate: false, beams: false, patching: true }, examples: { en: [], ko: [] }, ...partial,
  };
}

export function makeModels(): MockModel[] {
  const next = gaussian(7);
  const embedding = matrix(vocabulary.length, hidden);
  for (let r = 0; r < embedding.rows; ++r) for (let c = 0; c < 16; ++c) embedding.data[r * hidden + c] = next();
  const tied = matrix(hidden, vocabulary.length);
  for (let r = 0; r < embedding.rows; ++r) for (let c = 0; c < 16; ++c) tied.data[c * vocabulary.length + r] = embedding.data[r * hidden + c];
  const make = (kind: Kind, count: number, causal: boolean, preNorm: boolean, cross = false): Stack =>
    ({ kind, layers: Array.from({ length: count }, () => layer(next, cross)), heads, headDim, causal, preNorm, finalNorm: preNorm ? normWeights(next) : undefined });

  const gpt = make('self', 3, true, true);
  wireGpt(gpt);
  const bert = { ...make('self', 3, false, false), embedNorm: normWeights(next) };
  const slope = (head: number, query: number, key: number) => -Math.abs(query - key) * 0.5 ** (head + 1) + (head === 1 && key < query ? 0.4 : 0);
  const encoder = { ...make('encoder', 2, false, true), relative: slope };
  const decoder = { ...make('decoder', 2, true, true, true), relative: slope };
  const vit = make('self', 3, false, true);
  const labels = ['circle', 'square', 'triangle', 'star', 'cross'];

  return [
    { info: info({ id: 'tiny-gpt', name: 'tiny-gpt', model_type: 'gpt2', family: 'decoder', answers: 'next-token',
                   can: { why: true, lens: true, neurons: true, generate: true, beams: false, patching: true },
                   examples: { en: ['the cat sat on a mat . the cat'], ko: ['고양이가 매트 위에 앉았다 . 고양이가 매트'] } }, [gpt]),
      style: 'gpt', stacks: [gpt], embedding, positions: sinusoid, head: tied, labels: vocabulary },
    { info: info({ id: 'tiny-bert', name: 'tiny-bert', model_type: 'bert', family: 'encoder', answers: 'fill-mask', norm: 'post', mask_token: '[MASK]',
                   inputs: { text: true, pair: true, target: false, image: false, audio: false, features: false }, position: 'learned',
                   examples: { en: ['the capital of France is [MASK] .'], ko: ['오늘 날씨가 [MASK] .'] } }, [bert]),
      style: 'bert', stacks: [bert], embedding, positions: sinusoid, segments: random(2, hidden, 0.3, next), head: tied, labels: vocabulary },
    { info: info({ id: 'tiny-seq2seq', name: 'tiny-seq2seq', model_type: 't5', family: 'encoder-decoder', answers: 'target-token', position: 'relative',
                   inputs: { text: true, pair: false, target: true, image: false, audio: false, features: false },
                   can: { why: true, lens: true, neurons: true, generate: true, beams: true, patching: true },
                   examples: { en: ['the dog ran to the house'], ko: ['강아지가 집으로 갔다'] } }, [encoder, decoder]),
      style: 'seq2seq', stacks: [encoder, decoder], embedding, positions: () => new Float64Array(hidden), head: tied, labels: vocabulary },
    { info: info({ id: 'tiny-vit', name: 'tiny-vit', model_type: 'vit', family: 'vision', answers: 'class', position: 'learned', vocab_size: labels.length,
                   inputs: { text: false, pair: false, target: false, image: true, audio: false, features: false }, max_positions: 17,
                   patch: { rows: 4, columns: 4, first: 1 }, image: { height: 64, width: 64, channels: 3 } }, [vit]),
      style: 'vit', stacks: [vit], embedding: random(256, hidden, 0.8, next), positions: sinusoid, head: random(hidden, labels.length, 0.6, next), labels },
  ];
}

export interface Ran {
  pass: Pass; tokens: { source: Token[]; target?: Token[] };
  logits: Matrix; // a row for each position, or one
  logitsKind: Kind; // stack that the logits are of
}

function embed(model: MockModel, run: ReturnType<typeof runner>, stack: Stack, tokens: Token[], ids: number[]): { rows: Matrix; parts: NamedPart[] } {
  const prefix = stack.kind === 'self' ? '' : `${stack.kind}.`;
  const words = matrix(ids.length, hidden), places = matrix(ids.length, hidden), segments = matrix(ids.length, hidden);
  let segment = 0;
  ids.forEach((id, i) => {
    rowOf(words, i).set(rowOf(model.embedding, id));
    rowOf(places, i).set(model.positions(i));
    if (model.segments) rowOf(segments, i).set(rowOf(model.segments, segment));
    if (tokens[i].label === '[SEP]') segment = 1;
  });
  const parts: NamedPart[] = [{ part: { name: 'embed', type: 'embed' }, rows: run.hook(`${prefix}hook_embed`, words) }];
  if (model.info.position !== 'relative') parts.push({ part: { name: 'pos_embed', type: 'position' }, rows: run.hook(`${prefix}hook_pos_embed`, places) });
  if (model.segments) parts.push({ part: { name: 'token_type_embed', type: 'segment' }, rows: segments });
  return { rows: parts.map((p) => p.rows).reduce(add), parts };
}

export function patchTokens(model: MockModel): Token[] {
  const { rows, columns } = model.info.patch!;
  const cls: Token = { id: -1, label: '[CLS]', text: '', special: true, group: 0, word: -1 };
  return [cls, ...Array.from({ length: rows * columns }, (_, i) => ({
    id: -1, label: `${Math.floor(i / columns) + 1},${(i % columns) + 1}`, text: '', special: false, group: i + 1, word: i }))];
}

export function forward(model: MockModel, tokens: { source: Token[]; target?: Token[] }, interventions: Intervention[], lookup: Lookup, image = ''): Ran {
  const pass = newPass();
  const run = runner(pass, interventions, lookup);
  const ids = model.style === 'vit'
    ? tokens.source.map((_, i) => (i === 0 ? 0 : (image.charCodeAt((i * 97) % Math.max(image.length, 1)) || i * 7) % 256))
    : tokens.source.map((t) => t.id);
  const source = embed(model, run, model.stacks[0], tokens.source, ids);
  let out = run.run(model.stacks[0], source.rows, source.parts);
  if (model.stacks.length > 1 && tokens.target) {
    const target = embed(model, run, model.stacks[1], tokens.target, tokens.target.map((t) => t.id));
    out = run.run(model.stacks[1], target.rows, target.parts, out);
  }
  const rows = model.style === 'vit' ? rowsOf(out.rows, 0, 1) : out.rows;
  const logits = rows.rows > 2048 ? linear(rowsOf(rows, rows.rows - 1, rows.rows), model.head) : linear(rows, model.head);
  return { pass, tokens, logits, logitsKind: model.stacks[model.stacks.length - 1].kind };
}

/// Greedy decoding, for encoder-decoders without a target.
export function greedyTarget(model: MockModel, source: Token[], length: number): Token[] {
  const target = tokenize('seq2seq', '').map((t) => ({ ...t }));
  while (target.length <= length) {
    const { logits } = forward(model, { source, target }, [], () => undefined);
    const row = rowOf(logits, target.length - 1);
    let best = 262;
    for (let i = 262; i < row.length; ++i) if (row[i] > row[best] && !target.some((t) => t.id === i)) best = i;
    target.push({ id: best, label: vocabulary[best], text: ` ${vocabulary[best]}`, special: false, group: target.length, word: target.length - 1 });
  }
  return target;
}
