import { numbers } from '../api/tensor';
import type { Steps } from '../api/types';
import { type HeadNumbers, type RowSteps, embeddingOf } from '../math/attention';
import { num, percent } from '../ui/format';
import { type Theme, colorAt, inkOn, shade, shadeSigned } from './color';
import { shorten } from './matrix_scene';
import { type Box, type Cell, type Stage, StageBuilder, largestOf } from './motion';

// What moves in each step of one head, with the numbers of the model: from where a value comes to where it goes.

export const stepNames = ['embed', 'qkv', 'scores', 'scale', 'mask', 'softmax', 'mix', 'output', 'residual', 'mlp', 'logits'] as const;
export type StepName = (typeof stepNames)[number];
export interface StageNumbers {
  s: Steps; h: HeadNumbers; r: number; own: RowSteps;
  chosen: number; // the key that is looked at, as a column of `h`
  itself: number; // the query's own column of `h`; −1: its keys are another text's
  query: string; key: (column: number) => string;
  candidates: { label: string; probability: number }[];
  words: { position: string; head: (head: number) => string; neurons: string };
}
const row = (data: Float32Array, width: number, i: number) => data.subarray(i * width, (i + 1) * width);

/// The columns that are drawn: the chosen one, the strongest and, if asked for, two of the hidden ones, in the order of the text.
function columnsOf(n: StageNumbers, most: number, hidden = false): number[] {
  const all = Array.from({ length: n.h.keys }, (_, i) => i);
  if (all.length <= most) return all;
  const first = hidden ? all.filter((c) => n.own.masked[c] === -Infinity).slice(0, 2) : [];
  const rank = (c: number) => (c === n.chosen ? 3 : first.includes(c) ? 2 : n.own.weights[c]);
  const best = all.sort((x, y) => rank(y) - rank(x));
  return best.slice(0, most).sort((x, y) => x - y);
}
/// A cell with its number in it.
function numbered(b: StageBuilder, box: Box, value: number, share: number, signed: boolean, at: number, digits = 2): Cell {
  const cell = b.mark({ ...box, fill: colorAt(b.theme, share, signed) }, at);
  b.text(box.x + box.w / 2, box.y + box.h / 2, num(value, digits), { at, size: 12, anchor: 'middle', fill: inkOn(b.theme, share, signed) });
  return cell;
}
const framed = (b: StageBuilder, box: Box, at = 0) => b.mark({ x: box.x - 2.5, y: box.y - 2.5, w: box.w + 5, h: box.h + 5, fill: b.accent }, at);

function embed(n: StageNumbers, b: StageBuilder) {
  const position = n.s.pos_embed && numbers(n.s.pos_embed), all: [ArrayLike<number> | null, string][] = [[embeddingOf(n.s), n.query], [position, n.words.position]];
  const parts = all.filter((part): part is [ArrayLike<number>, string] => part[0] !== null), most = Math.max(...parts.map(([v]) => largestOf(v)), n.s.embed_sum && !n.s.embed_norm ? largestOf(numbers(n.s.embed_sum)) : 0);
  const left = b.narrow ? 74 : 130, line = 34, sum = n.s.embed_sum;
  const width = b.narrow ? (b.width - left) * 0.42 : (b.width - left) * 0.44, x = b.width - width;
  const middle = 14 + ((parts.length - 1) * line) / 2;
  const target = sum ? b.strip(numbers(sum), { x, y: middle, w: width, h: 22 }, 0.8, n.s.embed_norm ? undefined : most) : [];
  parts.forEach(([values, label], i) => {
    const y = 14 + i * line;
    b.text(0, y + 11, shorten(label, b.narrow ? 8 : 15), { fill: b.ink, weight: 600 });
    const cells = b.strip(values, { x: left, y, w: width, h: 22 }, 0.3, most);
    b.fly(cells.map((c) => ({ x: left - 14, y, w: 6, h: 22, fill: c.fill })), cells, 0, 0.32, { spread: 0.12 });
    b.fly(cells, target, 0.45, 0.84, { spread: 0.15 });
    if (i) b.text(left - 16, y - 6, '+', { size: 15, anchor: 'middle' });
  });
  if (sum) b.text(x - 14, middle + 11, n.s.embed_norm ? '→' : '=', { size: 16, anchor: 'middle' });
}

function qkv(n: StageNumbers, b: StageBuilder) {
  const { h, r, itself } = n, width = (b.width - (b.narrow ? 60 : 110)) * 0.46, x = b.width - width, line = 44;
  const rows: [string, ArrayLike<number>][] = [['q', row(h.q, h.headDim, r)]];
  if (itself >= 0) rows.push(['k', row(h.k, h.headDim, itself)], ['v', row(h.v, h.valueDim, itself)]);
  const middle = 20 + ((rows.length - 1) * line) / 2;
  b.text(0, middle - 8, shorten(n.query, b.narrow ? 14 : 24), { fill: b.ink, weight: 600 });
  const source = b.strip(numbers(n.s.normalized), { x: 0, y: middle, w: width, h: 22 });
  rows.forEach(([name, values], i) => {
    const y = 20 + i * line, from = width + 8, to = x - 26, bend = (to - from) / 2;
    b.band([from, middle + 11, from + bend, middle + 11, to - bend, y + 11, to, y + 11], 3);
    b.text(x - 8, y + 11, name, { anchor: 'end', size: 15, fill: b.ink, weight: 600 });
    if (!b.narrow) b.text(to, y + 1, `W_${name.toUpperCase()}`, { anchor: 'end', size: 12 });
    const end = rows.length > 1 ? 0.38 + 0.3 * i : 0.9, target = b.strip(values, { x, y, w: width, h: 22 }, end - 0.04);
    b.fly(source, target, 0.3 * i, end, { spread: 0.12 });
  });
}

/// One row of the product: every cell is made of the query's row and that key's column.
function scores(n: StageNumbers, b: StageBuilder) {
  const { h, r, own } = n, dims = Math.min(8, h.headDim), side = 13, top = 24;
  const left = b.narrow ? 8 * side + 8 : 250, columns = columnsOf(n, Math.max(3, Math.min(12, Math.floor((b.width - left) / 52))));
  const step = Math.min(74, (b.width - left) / columns.length), below = top + dims * side + 12;
  const q = row(h.q, h.headDim, r), mostKey = largestOf(h.k), most = largestOf(own.products);
  b.text(left - 14, below - 12, shorten(n.query, b.narrow ? 8 : 20), { anchor: 'end', fill: b.ink, weight: 600 });
  const query = b.strip(q, { x: b.narrow ? 0 : left - 14 - dims * 20, y: below, w: dims * (b.narrow ? side : 20), h: 28 }, 0, largestOf(q), dims);
  columns.forEach((c, j) => {
    const x = left + j * step, w = step - 6, start = (0.8 * j) / columns.length, end = start + 0.2;
    b.text(x + w / 2, 10, shorten(n.key(c), Math.floor(step / 6.2)), { anchor: 'middle', size: step < 64 ? 11 : 13, fill: c === n.chosen ? b.accent : b.ink, weight: c === n.chosen ? 650 : 400 });
    const across = b.colors(row(h.k, h.headDim, c), mostKey, dims).map((fill, i) => b.mark({ x: x + w / 2 - 10, y: top + i * side, w: 20, h: side - 1, fill }));
    if (c === n.chosen) framed(b, { x, y: below, w, h: 28 }, end - 0.02);
    const target = numbered(b, { x, y: below, w, h: 28 }, own.products[c], shadeSigned(own.products[c], most), true, end - 0.02);
    b.fly(query, [target], start, end, { spread: 0.05 });
    b.fly(across, [target], start, end, { spread: 0.05 });
  });
  if (n.h.keys > columns.length) b.text(b.width, below + 42, `${columns.length} / ${n.h.keys}`, { anchor: 'end', size: 12 });
}

/// Rows of cells, one below the other; what changes between them falls.
function rowsOfKeys(n: StageNumbers, b: StageBuilder, labels: string[], hidden = false): { columns: number[]; box: (line: number, j: number) => Box; left: number } {
  const left = b.narrow ? 58 : 110, columns = columnsOf(n, Math.max(3, Math.min(12, Math.floor((b.width - left) / 52))), hidden);
  const step = Math.min(74, (b.width - left) / columns.length), box = (line: number, j: number) => ({ x: left + j * step, y: 22 + line * 48, w: step - 6, h: 28 });
  columns.forEach((c, j) => b.text(box(0, j).x + box(0, j).w / 2, 9, shorten(n.key(c), Math.floor(step / 6.2)), { anchor: 'middle', size: step < 64 ? 11 : 13, fill: c === n.chosen ? b.accent : b.ink, weight: c === n.chosen ? 650 : 400 }));
  labels.forEach((label, line) => b.text(0, box(line, 0).y + 14, label));
  return { columns, box, left };
}
function scale(n: StageNumbers, b: StageBuilder) {
  const { columns, box } = rowsOfKeys(n, b, ['q · k', `× ${num(n.h.scale, 3)}`]), most = largestOf(n.own.products);
  columns.forEach((c, j) => {
    const at = 0.08 + (0.6 * j) / columns.length;
    const from = numbered(b, box(0, j), n.own.products[c], shadeSigned(n.own.products[c], most), true, 0);
    b.fly([from], [numbered(b, box(1, j), n.own.scaled[c], shadeSigned(n.own.scaled[c], most), true, at + 0.26)], at, at + 0.3);
  });
}
function mask(n: StageNumbers, b: StageBuilder) {
  const { columns, box } = rowsOfKeys(n, b, ['', ''], true), most = largestOf(n.own.scaled);
  columns.forEach((c, j) => {
    const at = 0.08 + (0.6 * j) / columns.length, value = n.own.scaled[c], from = numbered(b, box(0, j), value, shadeSigned(value, most), true, 0), to = box(1, j);
    if (n.own.masked[c] === -Infinity) {
      b.mark({ ...to, fill: b.line }, at + 0.2, 0.6); // stopped on its way
      b.text(to.x + to.w / 2, to.y + 14, '−∞', { at: at + 0.2, anchor: 'middle', fill: b.ink });
      b.fly([from], [{ x: to.x + to.w / 2, y: to.y - 6, w: 0, h: 0 }], at, at + 0.24, { opacity: 0.6 });
    } else b.fly([from], [numbered(b, to, value, shadeSigned(value, most), true, at + 0.26)], at, at + 0.3);
  });
}
function softmax(n: StageNumbers, b: StageBuilder) {
  const { columns, box, left } = rowsOfKeys(n, b, ['', 'exp', b.narrow ? '÷ Σ' : `÷ Σ = ${num(n.own.sum, 2)}`]), { own } = n, most = largestOf(own.masked);
  const sum = { x: left - (b.narrow ? 26 : 44), y: box(2, 0).y - 16, w: b.narrow ? 18 : 30, h: 8 };
  b.mark({ ...sum, fill: b.line }, 0.5, 0);
  columns.forEach((c, j) => {
    const at = (0.14 * j) / columns.length, hidden = own.masked[c] === -Infinity;
    const score = numbered(b, box(0, j), own.masked[c], hidden ? 0.5 : shadeSigned(own.masked[c], most), true, 0);
    const power = numbered(b, box(1, j), own.exponentials[c], shade(own.exponentials[c], 'absolute'), false, at + 0.2);
    const weight = numbered(b, box(2, j), own.weights[c], shade(own.weights[c], 'absolute'), false, at + 0.84);
    b.fly([score], [power], at, at + 0.24);
    b.fly([power], [sum], at + 0.3, at + 0.56);
    b.fly([{ ...power, fill: weight.fill }], [weight], at + 0.6, at + 0.86);
  });
}
function mix(n: StageNumbers, b: StageBuilder) {
  const { h, own } = n, columns = columnsOf(n, b.narrow ? 6 : 8).filter((c) => own.masked[c] > -Infinity), line = 27, top = 6;
  const left = b.narrow ? 122 : 190, width = (b.width - left) * (b.narrow ? 0.36 : 0.34), x = b.width - (b.width - left) * (b.narrow ? 0.4 : 0.42);
  const height = Math.max(columns.length * line, 60), middle = top + height / 2 - 13, most = largestOf(h.v), z = row(h.z, h.valueDim, n.r);
  const target = b.strip(z, { x, y: middle, w: b.width - x, h: 28 }, 0.82);
  b.text(b.width, middle - 9, shorten(n.query, b.narrow ? 12 : 24), { anchor: 'end', fill: b.ink, weight: 600 });
  const total = columns.reduce((sum, c) => sum + own.weights[c], 0);
  let before = 0;
  columns.forEach((c, i) => {
    const y = top + i * line, weight = own.weights[c], from = left + width + 4, to = x - 3, bend = (to - from) / 2, thick = Math.max(0.6, 26 * weight);
    const into = middle + 14 + 26 * (before + weight / 2 - total / 2);
    before += weight;
    b.band([from, y + 10, from + bend, y + 10, to - bend, into, to, into], thick);
    b.text(left - (b.narrow ? 62 : 66), y + 10, shorten(n.key(c), b.narrow ? 6 : 15), { anchor: 'end', fill: c === n.chosen ? b.accent : b.ink, weight: c === n.chosen ? 650 : 400 });
    b.text(left - 8, y + 10, percent(weight), { anchor: 'end', size: 12 });
    const cells = b.strip(row(h.v, h.valueDim, c), { x: left, y, w: width, h: 20 }, 0, most);
    const start = (0.35 * i) / columns.length, sent = cells.map((cell) => ({ ...cell, y: cell.y + 10 * (1 - weight), h: Math.max(1.5, 20 * weight) }));
    b.fly(sent, target, start, start + 0.55, { spread: 0.2, opacity: 0.35 + 0.65 * Math.sqrt(weight) });
  });
}
function output(n: StageNumbers, b: StageBuilder) {
  const heads = n.s.head_norms.shape[0], all = numbers(n.s.concat), width = all.length / heads, most = largestOf(all), wide = b.width / heads;
  const cells = Math.max(1, Math.floor((b.narrow ? 48 : 96) / heads)), gap = Math.min(10, wide * 0.3), out = numbers(n.s.attn_out);
  const last = b.strip(out, { x: 0, y: 112, w: b.width, h: 24 }, 0.86, largestOf(out), cells * heads);
  for (let i = 0; i < heads; ++i) {
    const at = (0.2 * i) / heads, own = row(all as Float32Array, width, i);
    if (i === n.s.head) framed(b, { x: i * wide + gap / 2, y: 22, w: wide - gap, h: 20 });
    if (wide > 30) b.text(i * wide + wide / 2, 9, wide > 64 ? n.words.head(i) : String(i), { anchor: 'middle', size: 12, fill: i === n.s.head ? b.accent : b.soft });
    const apart = b.strip(own, { x: i * wide + gap / 2, y: 22, w: wide - gap, h: 20 }, 0, most, cells);
    const joined = b.strip(own, { x: i * wide, y: 66, w: wide, h: 20 }, at + 0.24, most, cells);
    b.fly(apart, joined, at, at + 0.28);
    b.fly(joined, last, 0.52 + at, 0.9, { spread: 0.1, opacity: 0.3 + 0.7 / heads });
  }
  b.text(b.width / 2, 99, 'W_O', { anchor: 'middle', size: 12 });
}
function residual(n: StageNumbers, b: StageBuilder) {
  const width = b.width * (b.narrow ? 0.36 : 0.36), x = b.width - width, before = numbers(n.s.resid_pre), added = numbers(n.s.attn_out);
  const length = (v: ArrayLike<number>) => Math.sqrt(Array.from(v).reduce((sum, y) => sum + y * y, 0));
  const one = length(before), two = length(added), unit = 30 / Math.max(1e-12, one + two), from = width + 6, to = x - 6, bend = (to - from) / 2;
  b.band([from, 31, from + bend, 31, to - bend, 45, to, 45], Math.max(1, unit * one));
  b.band([from, 91, from + bend, 91, to - bend, 45 + (unit * (one + two)) / 2, to, 45 + (unit * (one + two)) / 2], Math.max(1, unit * two));
  b.text(0, 9, 'x', { fill: b.ink, weight: 600 });
  b.text(0, 69, 'out', { fill: b.ink, weight: 600 });
  const most = Math.max(largestOf(before), largestOf(added), n.s.pre_norm ? largestOf(numbers(n.s.resid_mid)) : 0);
  const target = b.strip(numbers(n.s.resid_mid), { x, y: 34, w: width, h: 24 }, 0.84, n.s.pre_norm ? most : undefined);
  b.text(b.width, 22, n.s.pre_norm ? 'x + out' : 'norm(x + out)', { anchor: 'end', fill: b.ink, weight: 600 });
  b.fly(b.strip(before, { x: 0, y: 20, w: width, h: 22 }, 0, most), target, 0, 0.7, { spread: 0.25 });
  b.fly(b.strip(added, { x: 0, y: 80, w: width, h: 22 }, 0, most), target, 0.25, 0.9, { spread: 0.25 });
}
function mlp(n: StageNumbers, b: StageBuilder) {
  const width = b.width * (b.narrow ? 0.34 : 0.38), middle = b.width / 2, neurons = n.s.neurons.slice(0, b.narrow ? 8 : 10), line = 15;
  const y = Math.max(20, (neurons.length * line) / 2 - 4), input = n.s.mlp_in ?? n.s.resid_mid, most = Math.max(1e-12, ...neurons.map((x) => x.norm));
  const source = b.strip(numbers(input), { x: 0, y, w: width, h: 24 });
  b.text(0, y - 9, b.narrow ? 'x' : shorten(n.query, 24), { fill: b.ink, weight: 600 });
  const target = n.s.mlp_out ? b.strip(numbers(n.s.mlp_out), { x: b.width - width, y, w: width, h: 24 }, 0.84) : [];
  neurons.forEach((neuron, i) => {
    const at = (0.14 * i) / neurons.length, size = 4 + 9 * Math.sqrt(neuron.norm / most), top = i * line + 6;
    b.band([width + 4, y + 12, width + 24, y + 12, middle - 26, top + 6, middle - 8, top + 6], 1);
    b.band([middle + 8, top + 6, middle + 26, top + 6, b.width - width - 24, y + 12, b.width - width - 4, y + 12], 0.6 + 2.5 * (neuron.norm / most));
    const cell = b.mark({ x: middle - size / 2, y: top + 6 - size / 2, w: size, h: size, fill: neuron.post < 0 ? colorAt(b.theme, 0.1, true) : colorAt(b.theme, 0.9, true) }, at + 0.34);
    b.fly(source, [cell], at, at + 0.38, { spread: 0.08, opacity: 0.5 });
    b.fly([cell], target, at + 0.46, at + 0.86, { spread: 0.08, opacity: 0.4 + (0.6 * neuron.norm) / most });
  });
  b.text(middle, neurons.length * line + 16, n.words.neurons, { anchor: 'middle', size: 12 });
}
function logits(n: StageNumbers, b: StageBuilder) {
  const width = b.width * (b.narrow ? 0.3 : 0.36), line = 25, shown = n.candidates.slice(0, 6), x = b.width - width - 52;
  const y = Math.max(8, (shown.length * line) / 2 - 12), source = b.strip(numbers(n.s.resid_post), { x: 0, y, w: width, h: 24 });
  shown.forEach((c, i) => {
    const top = i * line + 4, at = (0.3 * i) / shown.length, from = width + 6, to = x - (b.narrow ? 52 : 110), bend = (to - from) / 2;
    b.band([from, y + 12, from + bend, y + 12, to - bend, top + 8, to, top + 8], Math.max(0.6, 14 * c.probability));
    b.text(x - 8, top + 8, shorten(c.label, b.narrow ? 6 : 13), { anchor: 'end', fill: b.ink, weight: i ? 400 : 650 });
    const bar = b.mark({ x, y: top, w: Math.max(2, width * c.probability), h: 16, fill: b.accent }, at + 0.5);
    b.text(b.width, top + 8, percent(c.probability), { at: at + 0.5, anchor: 'end', size: 12 });
    b.fly(source, [bar], at, at + 0.56, { spread: 0.15, opacity: 0.3 + 0.7 * c.probability });
  });
}

const builders: Record<StepName, [number, (n: StageNumbers, b: StageBuilder) => void]> = {
  embed: [1.8, embed], qkv: [2, qkv], scores: [2.8, scores], scale: [1.5, scale], mask: [1.5, mask], softmax: [2.4, softmax],
  mix: [2, mix], output: [2, output], residual: [1.8, residual], mlp: [2.2, mlp], logits: [1.8, logits],
};
export function stepStage(step: StepName, n: StageNumbers, width: number, theme: Theme): Stage {
  const [seconds, build] = builders[step], b = new StageBuilder(width, theme, seconds);
  build(n, b);
  return b.done();
}
