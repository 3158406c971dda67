import { type Theme, colorAt, shadeSigned } from './color';
import type { Curve, Scene, Shape } from './scene';

// A picture that explains a step by what moves in it: cells that stand still from some moment on, and cells on their way. Time
// runs from 0 to 1; at 1 nothing is on its way, and that is the picture which is shown where no motion is wanted.

export interface Box { x: number; y: number; w: number; h: number }
export interface Cell extends Box { fill: string }
export interface Stage {
  width: number; height: number; seconds: number;
  marks: (Cell & { at: number; opacity: number })[];
  flights: { from: Box; to: Box; fill: string; start: number; end: number; opacity: number }[];
  labels: { x: number; y: number; text: string; at: number; size: number; fill: string; anchor: 'start' | 'middle' | 'end'; weight: number }[];
  bands: { d: Curve; width: number; at: number }[];
}

const inks = { light: { ink: '#171b26', soft: '#545d70', line: '#d7dbe3', accent: '#1f4fbf' }, dark: { ink: '#e9ecf2', soft: '#a4aec0', line: '#3a4354', accent: '#92b4ff' } };
const kFade = 0.06; // of the time: how long a cell takes to appear

/// At most `most` numbers that stand for all of them: of neighbours the one of largest magnitude.
export function pooled(values: ArrayLike<number>, most: number): number[] {
  const n = Math.min(values.length, most);
  return Array.from({ length: n }, (_, i) => {
    let best = 0;
    for (let j = Math.floor((i * values.length) / n); j < Math.floor(((i + 1) * values.length) / n); ++j) if (Math.abs(values[j]) > Math.abs(best)) best = values[j];
    return best;
  });
}
export function largestOf(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; ++i) if (Number.isFinite(values[i])) most = Math.max(most, Math.abs(values[i]));
  return most;
}

/// Puts a stage together, part by part.
export class StageBuilder {
  readonly ink; readonly soft; readonly line; readonly accent;
  readonly narrow: boolean;
  private stage: Stage;
  constructor(readonly width: number, readonly theme: Theme, seconds: number) {
    ({ ink: this.ink, soft: this.soft, line: this.line, accent: this.accent } = inks[theme]);
    this.narrow = width < 560;
    this.stage = { width, height: 0, seconds, marks: [], flights: [], labels: [], bands: [] };
  }
  mark(cell: Cell, at = 0, opacity = 1): Cell {
    this.stage.marks.push({ ...cell, at, opacity });
    this.stage.height = Math.max(this.stage.height, cell.y + cell.h + 3);
    return cell;
  }
  text(x: number, y: number, text: string, options: { at?: number; size?: number; fill?: string; anchor?: 'start' | 'middle' | 'end'; weight?: number } = {}) {
    const { at = 0, size = 13, fill = this.soft, anchor = 'start', weight = 400 } = options;
    this.stage.labels.push({ x, y, text, at, size, fill, anchor, weight });
    this.stage.height = Math.max(this.stage.height, y + size * 0.7);
  }
  band(d: Curve, width: number, at = 0) {
    this.stage.bands.push({ d, width, at });
  }
  /// The colours of a vector, blue below zero and orange above.
  colors(values: ArrayLike<number>, most: number, cells: number): string[] {
    return pooled(values, cells).map((v) => colorAt(this.theme, shadeSigned(v, most), true));
  }
  /// A vector as a line of cells.
  strip(values: ArrayLike<number>, box: Box, at = 0, most = largestOf(values), cells = this.narrow ? 12 : 24): Cell[] {
    const fills = this.colors(values, most, cells), w = box.w / fills.length;
    return fills.map((fill, i) => this.mark({ x: box.x + i * w, y: box.y, w: w - (w > 4 ? 1 : 0), h: box.h, fill }, at));
  }
  /// Sends cells to other cells; where there are fewer of one kind, some start or end at the same one. `spread` of the time lies
  /// between the first start and the last.
  fly(from: Cell[], to: Box[], start: number, end: number, options: { spread?: number; opacity?: number } = {}) {
    const n = Math.max(from.length, to.length), { spread = 0, opacity = 1 } = options;
    if (!from.length || !to.length) return;
    for (let i = 0; i < n; ++i) {
      const a = from[Math.floor((i * from.length) / n)], b = to[Math.floor((i * to.length) / n)];
      const late = (spread * i) / n;
      this.stage.flights.push({ from: a, to: b, fill: a.fill, start: start + late, end: end - spread + late, opacity });
    }
  }
  done(): Stage {
    return this.stage;
  }
}

const ease = (x: number) => (x < 0.5 ? 4 * x ** 3 : 1 - (-2 * x + 2) ** 3 / 2);

/// The picture at a moment.
export function stageScene(stage: Stage, time: number, theme: Theme): Scene {
  const shapes: Shape[] = [];
  const there = (at: number) => (at <= 0 || time >= 1 ? 1 : Math.max(0, Math.min(1, (time - at) / kFade)));
  for (const b of stage.bands) if (there(b.at) > 0) shapes.push({ type: 'path', d: b.d, stroke: inks[theme].accent, width: b.width, opacity: 0.28 * there(b.at) });
  for (const m of stage.marks) if (there(m.at) > 0) shapes.push({ type: 'rect', x: m.x, y: m.y, w: m.w, h: m.h, fill: m.fill, opacity: m.opacity * there(m.at) });
  for (const f of stage.flights) {
    if (time >= 1 || time < f.start || time >= f.end) continue;
    const p = ease((time - f.start) / (f.end - f.start)), mix = (a: number, b: number) => a + p * (b - a);
    shapes.push({ type: 'rect', x: mix(f.from.x, f.to.x), y: mix(f.from.y, f.to.y), w: mix(f.from.w, f.to.w), h: mix(f.from.h, f.to.h), fill: f.fill, opacity: f.opacity });
  }
  for (const l of stage.labels) if (there(l.at) > 0.5) shapes.push({ type: 'text', x: l.x, y: l.y, text: l.text, size: l.size, fill: l.fill, anchor: l.anchor, weight: l.weight });
  return { width: stage.width, height: stage.height, shapes };
}
