import type { Kind } from '../api/types';
import type { Tensor } from '../api/tensor';
import { type Theme, colorAt, shade } from './color';
import { labelWidth } from './matrix_scene';
import { type Part, type Plane, type Row, type Stack, stackOf } from './model_blocks';
import type { Scene, Shape } from './scene';

// The whole model in oblique projection: towers of layers, and beside them one layer's matrices, to scale, as planes that stand
// one behind the other in the order of the computation.

export interface Block {
  part?: Part; head: number; // a block of a tower; head −1: none of its heads
  plane?: Plane; // a matrix of the opened layer
  row: number; column: number; // of the arrow keys' grid
  points: number[]; // where it is, as a polygon
}
export interface ModelPicture {
  width: number; theme: Theme; stacks: Stack[]; planes: Plane[][];
  kind: Kind; layer: number; head: number; step: number; // the chosen ones; step −1: none
  focus: number; // the block that keys or pointer are at
  shares: (kind: Kind, layer: number) => number[] | null; // of each head: what it adds, 0 … 1
  map: (head: number) => Tensor | null; // a head's weights, small
  words: { input: (kind: Kind) => string; output: string; readout: string; mlp: string; stack: (kind: Kind) => string; opened: string; heads: (count: number, rows: number, columns: number) => string };
  compact: boolean; // towers only, without words
}
export interface DrawnModel { scene: Scene; blocks: Block[] }

const inks = {
  light: { ink: '#171b26', soft: '#545d70', line: '#c9d0dc', accent: '#1f4fbf', front: '#dfe4ee', side: '#c3cbda', top: '#f2f4f8', weight: '#b9c8ea', edge: '#7d8eb4' },
  dark: { ink: '#e9ecf2', soft: '#a4aec0', line: '#3a4354', accent: '#92b4ff', front: '#2a3140', side: '#1e2430', top: '#343d4f', weight: '#3a5086', edge: '#7187b8' },
};

/// Draws shapes and remembers where blocks are.
class Drawing {
  readonly shapes: Shape[] = [];
  readonly blocks: Block[] = [];
  height = 0;
  readonly ink;
  constructor(readonly p: ModelPicture) {
    this.ink = inks[p.theme];
  }
  polygon(points: number[], fill: string, stroke?: string, opacity?: number, width = 1) {
    this.shapes.push({ type: 'polygon', points, fill, stroke, opacity, width });
    for (let i = 1; i < points.length; i += 2) this.height = Math.max(this.height, points[i] + 2);
  }
  text(x: number, y: number, text: string, anchor: 'start' | 'middle' | 'end' = 'start', size = 12, fill = this.ink.soft, weight = 400) {
    this.shapes.push({ type: 'text', x, y, text, size, fill, anchor, weight });
    this.height = Math.max(this.height, y + size);
  }
  block(block: Block) {
    if (this.blocks.length === this.p.focus) this.focused = block.points;
    this.blocks.push(block);
  }
  focused: number[] | null = null;
}
/// A box: front, right side and top, which is divided into cells. Returns the cells' outlines.
function slab(d: Drawing, x: number, y: number, w: number, h: number, dx: number, dy: number, cells: { count: number; fill: (i: number) => string }, lit: boolean): number[][] {
  const { ink } = d, edge = lit ? ink.accent : ink.line;
  d.polygon([x, y, x + w, y, x + w, y + h, x, y + h], ink.front, edge);
  d.polygon([x + w, y, x + w + dx, y - dy, x + w + dx, y - dy + h, x + w, y + h], ink.side, edge);
  const count = Math.max(1, cells.count), wide = w / count;
  return Array.from({ length: count }, (_, i) => {
    const at = x + i * wide, points = [at, y, at + dx, y - dy, at + wide + dx, y - dy, at + wide, y];
    d.polygon(points, cells.fill(i), edge);
    return points;
  });
}

interface TowerPlace { x: number; width: number; pitch: number; bottom: number; dx: number; dy: number; h: number; firstRow: number; label: number }
function towerRow(d: Drawing, row: Row, index: number, rows: number, at: TowerPlace) {
  const { p, ink } = d, y = at.bottom - index * at.pitch, inner = at.width - at.dx - at.label, gap = 6;
  const here = (part: Part) => part.type === 'attention' && part.kind === p.kind && part.layer === p.layer;
  const roots = row.parts.map((part) => Math.sqrt(Math.max(1, part.numbers))), total = roots.reduce((a, b) => a + b, 0);
  // No part gets so thin that its heads cannot be told apart.
  const widths = roots.map((root) => Math.max(0.22, root / total)), sum = widths.reduce((a, b) => a + b, 0);
  const one = row.name !== 'layer', beside = p.stacks.length === 1 && inner > 400; // where the name of such a block has room
  const room = (inner - gap * (row.parts.length - 1)) * (one && beside ? 0.55 : 1);
  let x = at.x + at.label, column = 0;
  row.parts.forEach((part, i) => {
    const w = (room * widths[i]) / sum, own = part.kind === stackOf(p.stacks, p.kind), lit = here(part) ? p.step !== 9 : part.type === 'mlp' ? own && p.step === 9 && part.layer === p.layer : part.type === 'input' ? own && p.step === 0 : part.type === 'output' && p.step === 10;
    const shares = part.type === 'attention' ? p.shares(part.kind, part.layer) : null, most = Math.max(1e-9, ...(shares ?? [1]));
    const fill = (cell: number) => (shares ? colorAt(p.theme, shade(shares[cell] / most, 'linear')) : part.type === 'mlp' ? ink.top : part.heads ? ink.weight : ink.top);
    const cells = slab(d, x, y, w, at.h, at.dx, at.dy, { count: part.heads, fill }, lit);
    cells.forEach((points, head) => {
      const chosen = here(part) && head === p.head;
      if (chosen) d.polygon(points, 'none', ink.accent, 1, 3);
      // The front belongs to the block, too: small tops are hard to hit.
      const own = [points[0], points[1], points[2], points[3], points[4], points[5], points[6], points[7], points[6], points[7] + at.h, points[0], points[1] + at.h];
      d.block({ part, head: part.heads ? head : -1, row: at.firstRow + (rows - 1 - index), column: column++, points: own });
    });
    if (part.type === 'mlp' && part.layer === 0 && p.stacks.length === 1 && !p.compact && inner > 400) d.text(Math.max(x + at.dx, at.x + at.label + 1.15 * labelWidth(p.words.stack(part.kind), 13) + 16), 8, p.words.mlp, 'start', 13, ink.ink, 600);
    x += w + gap;
  });
  if (p.compact) return;
  const on = row.name === 'layer' && row.layer === p.layer && row.parts.some(here), every = Math.max(1, Math.ceil(12 / at.pitch));
  if (row.name === 'layer' && (row.layer % every === 0 || on)) d.text(at.x + at.label - 8, y + at.h / 2 - 2, String(row.layer), 'end', 12, on ? ink.accent : ink.soft, on ? 700 : 400);
  const name = row.name === 'input' ? p.words.input(row.parts[0].kind) : row.name === 'readout' ? p.words.readout : p.words.output;
  if (one && beside) d.text(x + at.dx, y - at.dy / 2 + at.h / 2, name, 'start', 12);
  else if (one && at.dy < 14 && row.name !== 'readout') d.text(at.x + at.label + inner, row.name === 'input' ? y + at.h + 11 : y - at.dy - 8, name, 'end', 12); // too thin for a name
  else if (one) d.text(at.x + at.label + (inner + at.dx) / 2, y - at.dy / 2, labelWidth(name, 12) < inner - at.dx - 44 ? name : name.split(' ')[0], 'middle', 12, ink.ink);
}
function towers(d: Drawing, width: number, tallest: number) {
  const { p, ink } = d, layers = Math.max(...p.stacks.map((s) => s.rows.length)), label = p.compact ? 2 : 26, top = p.compact ? 4 : 26;
  const pitch = Math.max(p.compact ? 5 : 11, Math.min(p.compact ? 26 : 46, tallest / layers)), h = Math.max(2, pitch * 0.2), dy = Math.max(2.5, pitch * 0.6), dx = dy * 1.1;
  const apart = 30, each = (width - apart * (p.stacks.length - 1)) / p.stacks.length, bottom = top + dy + (layers - 1) * pitch + 2;
  let firstRow = 0;
  p.stacks.forEach((stack, i) => {
    const at: TowerPlace = { x: i * (each + apart), width: each, pitch, bottom, dx, dy, h, firstRow, label };
    const high = bottom - (stack.rows.length - 1) * pitch;
    if (!p.compact) d.text(at.x + label, 8, p.words.stack(stack.kind), 'start', 13, ink.ink, 600);
    // The residual stream rises behind the layers, which read from it and add to it.
    d.polygon([at.x + label - 5, high - dy, at.x + label - 2, high - dy, at.x + label - 2, bottom + h, at.x + label - 5, bottom + h], ink.accent, undefined, 0.5);
    stack.rows.forEach((row, index) => {
      towerRow(d, row, index, stack.rows.length, at);
      const cross = row.parts.find((part) => part.kind === 'cross');
      if (cross && i > 0) { // the encoder's output goes to every layer of the decoder
        const from = i * (each + apart) - apart - dx * 0.2, start = bottom - (p.stacks[i - 1].rows.length - 1) * pitch - dy / 2, y = bottom - index * pitch;
        const chosen = p.kind === 'cross' && p.layer === cross.layer;
        d.shapes.push({ type: 'path', d: [from, start, from + apart * 0.8, start, at.x - apart * 0.2, y, at.x + 2, y], stroke: ink.accent, width: chosen ? 2.5 : 1, opacity: chosen ? 0.9 : 0.3 });
      }
    });
    firstRow += stack.rows.length;
  });
  d.height = Math.max(d.height, bottom + h + 4);
}

// Edges are drawn as the square root of their size: a vocabulary of 50,000 and a head of 64 fit the same picture.
const edge = (size: number, unit: number) => Math.max(2.5, unit * Math.sqrt(size));
const kDepth = { x: 0.6, y: 0.34 };
const kHead = 58; // a head's map has a size of its own: beside weights, those of a short text could not be seen
const heightOf = (plane: Plane, unit: number) => (plane.head === undefined ? edge(plane.rows, unit) : kHead);
const depthOf = (plane: Plane, unit: number) => (plane.head === undefined ? edge(plane.columns, unit) : kHead);

interface PlanePlace { plane: Plane; x: number; wide: number }
function placeLine(line: Plane[], unit: number, width: number): { places: PlanePlace[]; width: number } {
  let x = 0;
  const places: PlanePlace[] = [], heads = line.filter((plane) => plane.head !== undefined).length;
  const others = heads ? placeLine(line.filter((plane) => plane.head === undefined), unit, width).width : 0;
  const step = Math.max(6, Math.min(kDepth.x * kHead + 8, (width - others - kDepth.x * kHead - 18) / Math.max(1, heads - 1)));
  line.forEach((plane, i) => {
    const deep = kDepth.x * depthOf(plane, unit), sizes = labelWidth(`${plane.rows}×${plane.columns}`, 11);
    const next = line[i + 1], inGroup = plane.head !== undefined && next?.head !== undefined;
    // The words below a few heads may be wider than they are.
    const words = Math.max(sizes, labelWidth(`${heads} heads`, 12)) + 14 - (heads - 1) * step;
    const wide = inGroup ? step : plane.head !== undefined ? Math.max(deep + 18, words) : Math.max(deep, sizes) + 14;
    places.push({ plane, x, wide });
    x += wide;
  });
  return { places, width: x };
}
function drawPlane(d: Drawing, { plane, x }: PlanePlace, base: number, unit: number, row: number, column: number) {
  const { p, ink } = d, h = heightOf(plane, unit), deep = depthOf(plane, unit), dx = kDepth.x * deep, dy = kDepth.y * deep, y = base - h;
  const points = [x, y, x + dx, y - dy, x + dx, y - dy + h, x, y + h];
  const isHead = plane.head !== undefined, chosen = isHead ? plane.head === p.head && p.step >= 2 && p.step <= 6 : plane.step === p.step;
  const lit = chosen || (isHead && plane.head === p.head);
  d.polygon(points, plane.weight ? ink.weight : ink.top, lit ? ink.accent : ink.edge, 1, lit ? 2.5 : 1);
  const map = isHead ? p.map(plane.head!) : null;
  if (map) mapCells(d, map, x, y, h, dx, dy, p.planes[0].length);
  if (lit) d.polygon(points, 'none', ink.accent, 1, 2.5);
  d.block({ plane, head: plane.head ?? -1, row, column, points });
}
/// A head's weights on its plane, pooled so that a model of many heads stays light.
function mapCells(d: Drawing, map: Tensor, x: number, y: number, h: number, dx: number, dy: number, planes: number) {
  const [rows, columns] = map.shape, most = Math.max(4, Math.floor(Math.sqrt(5000 / planes))), n = Math.min(rows, most, Math.ceil(h / 2)), m = Math.min(columns, most);
  for (let r = 0; r < n; ++r) {
    for (let c = 0; c < m; ++c) {
      let value = 0;
      for (let i = Math.floor((r * rows) / n); i < Math.floor(((r + 1) * rows) / n); ++i) for (let j = Math.floor((c * columns) / m); j < Math.floor(((c + 1) * columns) / m); ++j) value = Math.max(value, map.data[i * columns + j]);
      const s = shade(value, 'absolute');
      if (s < 0.06) continue;
      const x0 = x + (dx * c) / m, x1 = x + (dx * (c + 1)) / m, y0 = y + (h * r) / n - (dy * c) / m, y1 = y + (h * r) / n - (dy * (c + 1)) / m, t = h / n;
      d.polygon([x0, y0, x1, y1, x1, y1 + t, x0, y0 + t], colorAt(d.p.theme, s));
    }
  }
}
function opened(d: Drawing, left: number, top: number, width: number, tallest: number) {
  const { p, ink } = d;
  if (!p.planes.length) return;
  d.text(left, top + 8, p.words.opened, 'start', 13, ink.ink, 600);
  // The largest unit at which every line fits and no plane becomes too tall.
  let unit = 16;
  const first = p.planes[0].findIndex((plane) => plane.head !== undefined); // narrow pictures start a line with the heads
  const lines = width < 560 ? [p.planes[0].slice(0, first), p.planes[0].slice(first), ...p.planes.slice(1)] : p.planes;
  const tall = (line: Plane[]) => Math.max(...line.map((plane) => heightOf(plane, unit) + kDepth.y * depthOf(plane, unit)));
  while (unit > 0.2 && lines.some((line) => placeLine(line, unit, width).width > width || tall(line) > tallest)) unit *= 0.94;
  let y = top + 26, row = 1000;
  for (const line of lines) {
    const base = y + tall(line), { places } = placeLine(line, unit, width);
    places.forEach((place, column) => drawPlane(d, { ...place, x: left + place.x }, base, unit, row, column));
    const heads = places.filter(({ plane }) => plane.head !== undefined);
    places.forEach(({ plane, x }) => {
      if (plane.head !== undefined) return;
      d.text(left + x, base + 11, plane.name, 'start', 12, plane.step === p.step ? ink.accent : ink.ink, 600);
      d.text(left + x, base + 25, `${plane.rows}×${plane.columns}`, 'start', 11);
    });
    if (heads.length) {
      d.text(left + heads[0].x, base + 11, p.words.heads(heads.length, heads[0].plane.rows, heads[0].plane.columns), 'start', 12, ink.ink, 600);
      d.text(left + heads[0].x, base + 25, `${heads[0].plane.rows}×${heads[0].plane.columns}`, 'start', 11);
    }
    y = base + 40;
    ++row;
  }
}

export function drawModel(p: ModelPicture): DrawnModel {
  const d = new Drawing(p), beside = !p.compact && p.width >= 820;
  const width = beside ? p.width * 0.42 : p.width;
  towers(d, width - (beside ? 24 : 0), p.compact ? 200 : 460);
  if (!p.compact) opened(d, beside ? width + 16 : 0, beside ? 0 : d.height + 24, beside ? p.width - width - 16 : p.width, beside ? Math.max(190, Math.min(260, d.height * 0.45)) : 150);
  if (d.focused) d.polygon(d.focused, 'none', d.ink.ink, 1, 2);
  return { scene: { width: p.width, height: d.height + 4, shapes: d.shapes }, blocks: d.blocks };
}

/// Where one is: the middle of the block that a stop stands for, or its left end where a name stands in the middle.
export function middleOf(blocks: Block[], stack: Kind, step: number, head: number): [number, number] | null {
  const found = step === 0 || step === 10 ? blocks.find((b) => b.part?.type === (step === 0 ? 'input' : 'output') && b.part.kind === stack) : blocks.find((b) => b.plane?.step === step && (b.plane.head === undefined || b.plane.head === head));
  if (!found) return null;
  const q = found.points;
  const along = found.part ? 0.07 : 0.5;
  return [q[0] + along * (q[4] - q[0]) + (found.part ? 4 : 0), (q[1] + q[5]) / 2];
}
/// The block at a point, or −1. Later blocks lie in front.
export function blockAt(blocks: Block[], x: number, y: number): number {
  for (let i = blocks.length - 1; i >= 0; --i) {
    const q = blocks[i].points;
    let inside = false;
    for (let a = 0, b = q.length - 2; a < q.length; b = a, a += 2) {
      if (q[a + 1] > y !== q[b + 1] > y && x < ((q[b] - q[a]) * (y - q[a + 1])) / (q[b + 1] - q[a + 1]) + q[a]) inside = !inside;
    }
    if (inside) return i;
  }
  return -1;
}
/// The block that an arrow key leads to: the neighbour in its row, or the nearest in the row above or below.
export function nextBlock(blocks: Block[], from: number, key: string): number {
  const at = blocks[from] ?? blocks[0];
  if (!at) return -1;
  if (key === 'ArrowLeft' || key === 'ArrowRight') {
    const found = blocks.findIndex((b) => b.row === at.row && b.column === at.column + (key === 'ArrowRight' ? 1 : -1));
    return found < 0 ? from : found;
  }
  const down = key === 'ArrowDown', rows = [...new Set(blocks.map((b) => b.row))].sort((a, b) => a - b), row = rows[rows.indexOf(at.row) + (down ? 1 : -1)];
  const there = blocks.map((b, i) => ({ b, i })).filter(({ b }) => b.row === row);
  if (!there.length) return from;
  const x = (b: Block) => b.points[0];
  return there.reduce((best, one) => (Math.abs(x(one.b) - x(at)) < Math.abs(x(best.b) - x(at)) ? one : best)).i;
}
