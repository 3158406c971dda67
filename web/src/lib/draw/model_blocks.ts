import type { AttentionInfo, Kind, Model, Trace } from '../api/types';

// A model as the blocks that a drawing of it has: stacks of layers with what goes in and comes out, and the matrices of one layer.

export interface Part {
  type: 'input' | 'attention' | 'mlp' | 'output';
  kind: Kind; layer: number; heads: number;
  numbers: number; // of its matrices
}
export interface Row { name: 'input' | 'layer' | 'readout' | 'output'; layer: number; parts: Part[] } // of a stack, from below
export interface Stack { kind: Kind; tokens: number; rows: Row[] }
export interface Plane {
  name: string; rows: number; columns: number; weight: boolean;
  step: number; // of the screen Steps
  head?: number; // of a head's map
}
export interface StackSize { hidden: number; inner: number }

const kSteps = { embed: 0, qkv: 1, weights: 5, output: 7, mlp: 9, logits: 10 };

/// What the hooks of a stack begin with.
const prefixOf = (kind: Kind) => (/^stage/.test(kind) ? `stages.${kind.slice(5)}.` : /^(text|vision)$/.test(kind) ? `${kind}_model.` : kind === 'self' || kind === 'readout' ? '' : kind === 'encoder' ? 'encoder.' : 'decoder.');
/// What the hooks of a layer begin with. The layers of a later stage go on counting where those of the one before end.
export const blockOf = (trace: Trace, kind: Kind, layer: number) => `${prefixOf(kind)}blocks.${layer + (trace.grids?.[kind]?.first_layer ?? 0)}`;
/// The sizes of a stack, as the pass had them: an encoder's may differ from its decoder's.
export function sizeOf(model: Model, trace: Trace, kind: Kind, layer = 0): StackSize {
  const block = blockOf(trace, kind, layer), last = (hook: string) => trace.activations.find((a) => a.name === `${block}.${hook}`)?.shape.at(-1);
  return { hidden: last('hook_resid_pre') ?? model.hidden_size, inner: last('mlp.hook_post') ?? model.intermediate_size };
}
const infoOf = (model: Model, kind: Kind) => model.attentions.find((a) => a.kind === kind);
function attentionNumbers(a: AttentionInfo, hidden: number): number {
  return 2 * hidden * a.head_dim * (a.heads + a.kv_heads);
}
function mlpNumbers(model: Model, { hidden, inner }: StackSize): number {
  return (model.gated ? 3 : 2) * hidden * inner;
}

/// The stacks of a model, the encoder first. Cross-attention stands in the decoder's layers; a readout above the last layer.
export function stacksOf(model: Model, trace: Trace): Stack[] {
  const kinds = trace.attentions.map((a) => a.kind), main = kinds.filter((k) => k !== 'cross' && k !== 'readout');
  return main.map((kind, index): Stack => {
    const last = index === main.length - 1, own = trace.attentions.find((a) => a.kind === kind)!, rows: Row[] = [];
    const part = (type: Part['type'], of: Kind, layer: number, heads: number, numbers: number): Part => ({ type, kind: of, layer, heads, numbers });
    const { hidden } = sizeOf(model, trace, kind);
    rows.push({ name: 'input', layer: -1, parts: [part('input', kind, 0, 0, model.vocab_size * hidden)] });
    for (let layer = 0; layer < own.layers; ++layer) {
      const size = sizeOf(model, trace, kind, layer), parts: Part[] = [];
      for (const k of last && kinds.includes('cross') ? [kind, 'cross'] : [kind]) {
        const info = infoOf(model, k);
        if (info) parts.push(part('attention', k, layer, info.heads, attentionNumbers(info, size.hidden)));
      }
      if (size.inner > 0) parts.push(part('mlp', kind, layer, 0, mlpNumbers(model, size)));
      rows.push({ name: 'layer', layer, parts });
    }
    const readout = last ? infoOf(model, 'readout') : undefined;
    if (readout) rows.push({ name: 'readout', layer: 0, parts: [part('attention', 'readout', 0, readout.heads, attentionNumbers(readout, hidden))] });
    if (last) rows.push({ name: 'output', layer: own.layers - 1, parts: [part('output', kind, own.layers - 1, 0, model.vocab_size * hidden)] });
    return { kind, tokens: own.queries, rows };
  });
}

/// The matrices of one layer in the order in which they are used: the attention's, then the feed-forward's.
export function planesOf(model: Model, trace: Trace, kind: Kind, layer: number): Plane[][] {
  const a = infoOf(model, kind), ran = trace.attentions.find((x) => x.kind === kind);
  if (!a || !ran) return [];
  const { hidden, inner } = sizeOf(model, trace, kind, layer), wide = a.heads * a.head_dim, narrow = a.kv_heads * a.head_dim;
  const weight = (name: string, rows: number, columns: number, step: number): Plane => ({ name, rows, columns, weight: true, step });
  const attention: Plane[] = [
    { name: 'x', rows: ran.queries, columns: hidden, weight: false, step: kSteps.embed },
    weight('W_Q', hidden, wide, kSteps.qkv), weight('W_K', hidden, narrow, kSteps.qkv), weight('W_V', hidden, narrow, kSteps.qkv),
    ...Array.from({ length: a.heads }, (_, head): Plane => ({ name: '', rows: ran.queries, columns: ran.keys, weight: false, step: kSteps.weights, head })),
    weight('W_O', wide, hidden, kSteps.output),
  ];
  if (kind === 'readout' || !inner) return [attention];
  return [attention, [weight('W_1', hidden, inner, kSteps.mlp), ...(model.gated ? [weight('W_3', hidden, inner, kSteps.mlp)] : []), weight('W_2', inner, hidden, kSteps.mlp)]];
}
/// The stack whose layers hold an attention: the last one for cross-attention and a readout.
export const stackOf = (stacks: Stack[], kind: Kind): Kind => (stacks.some((s) => s.kind === kind) ? kind : (stacks.at(-1)?.kind ?? kind));

/// The way through a model, stack by stack: what goes in; of every layer the projections, weights and joined heads of its attentions
/// and its feed-forward; at the end the prediction.
export interface Stop { kind: Kind; layer: number; step: number }
export function stopsOf(stacks: Stack[]): Stop[] {
  const stops: Stop[] = [];
  for (const { kind, rows } of stacks) {
    stops.push({ kind, layer: 0, step: kSteps.embed });
    for (const row of rows) {
      for (const part of row.name === 'layer' || row.name === 'readout' ? row.parts : []) {
        for (const step of part.type === 'mlp' ? [kSteps.mlp] : [kSteps.qkv, kSteps.weights, kSteps.output]) stops.push({ kind: part.kind, layer: part.layer, step });
      }
    }
  }
  const { kind, layer } = stops.filter((s) => s.step === kSteps.weights).at(-1) ?? { kind: '', layer: 0 };
  return [...stops, { kind, layer, step: kSteps.logits }];
}
/// The stop that a step of a layer belongs to.
export function stopOf(stops: Stop[], stacks: Stack[], kind: Kind, layer: number, step: number): number {
  if (step === kSteps.logits) return stops.length - 1;
  const own = stackOf(stacks, kind);
  if (step === kSteps.embed) return Math.max(0, stops.findIndex((s) => s.kind === own && s.step === kSteps.embed));
  const wanted = step === kSteps.qkv ? kSteps.qkv : step < kSteps.output ? kSteps.weights : step < kSteps.mlp ? kSteps.output : kSteps.mlp;
  return Math.max(0, stops.findIndex((s) => s.kind === (wanted === kSteps.mlp ? own : kind) && s.layer === layer && s.step === wanted));
}
export const stepOfPart = (part: Part): number => (part.type === 'input' ? kSteps.embed : part.type === 'output' ? kSteps.logits : part.type === 'mlp' ? kSteps.mlp : kSteps.weights);
