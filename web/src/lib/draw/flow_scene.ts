import { type Theme, colorAt, shade } from './color';
import { labelWidth, shorten } from './matrix_scene';
import type { Scene, Shape } from './scene';

// One picture of the whole way: words, what the chosen word took from them, the layers with their heads, the prediction.

export interface FlowPicture {
  width: number; theme: Theme;
  sources: { label: string; weight: number; chosen: boolean; index: number }[]; // in the order of the text
  query: string;
  layers: (number[] | null)[]; // of each layer: each head's share of what the layer adds; null: not there yet
  layer: number; head: number; // the chosen ones
  candidates: { label: string; probability: number | null }[]; // null: a number is the answer
  titles: [string, string, string];
}
export interface FlowLayout { sourceX: number; queryX: number; stackX: number; stackEnd: number; answerX: number; line: number; middle: number; cell: number; column: number; height: number }

const inks = { light: { ink: '#171b26', soft: '#545d70', line: '#e2e5eb', accent: '#1f4fbf' }, dark: { ink: '#e9ecf2', soft: '#a4aec0', line: '#2c3340', accent: '#92b4ff' } };

export function layoutFlow(p: FlowPicture): FlowLayout {
  const line = 27, top = 30;
  const narrow = p.width < 560;
  const widest = (labels: string[]) => labels.reduce((w, l) => Math.max(w, labelWidth(shorten(l, narrow ? 8 : 14), 14)), 30);
  const sourceX = 1.15 * widest(p.sources.map((s) => s.label)) + 14; // widths are guesses, and the chosen word is bold
  const alone = p.candidates.some((c) => c.probability === null); // without a share beside it there is room for more
  const answer = 1.1 * (alone ? p.candidates.reduce((w, c) => Math.max(w, labelWidth(shorten(c.label, 14), 14)), 30) + (narrow ? 12 : 30) : widest(p.candidates.map((c) => c.label))) + (alone ? 12 : narrow ? 58 : 76);
  const answerX = p.width - answer;
  const free = answerX - sourceX;
  const queryX = sourceX + free * (narrow ? 0.32 : 0.3);
  const stackX = queryX + Math.min(24, free * 0.04);
  const stackEnd = answerX - free * (narrow ? 0.28 : 0.24);
  const heads = Math.max(1, ...p.layers.map((l) => l?.length ?? 0));
  const column = (stackEnd - stackX) / Math.max(1, p.layers.length);
  const rows = Math.max(p.sources.length, p.candidates.length, 5);
  const cell = Math.max(3, Math.min(34, column - 2, (rows * line - 26) / heads));
  const height = top + Math.max(rows * line, heads * cell + 34) + 6;
  return { sourceX, queryX, stackX, stackEnd, answerX, line, middle: top + (height - top) / 2, cell, column, height };
}
/// The first line of a list that stands around the middle.
const first = (at: FlowLayout, count: number) => at.middle - ((count - 1) * at.line) / 2;

export function flowScene(p: FlowPicture): Scene {
  const at = layoutFlow(p), { ink, soft, line, accent } = inks[p.theme];
  const shapes: Shape[] = [];
  const narrow = p.width < 560, most = narrow ? 8 : 14;
  const title = (x: number, text: string, anchor: 'start' | 'middle' | 'end') => shapes.push({ type: 'text', x, y: 11, text, size: 12, fill: soft, anchor });
  title(0, p.titles[0], 'start');
  if (!narrow) title((at.stackX + at.stackEnd) / 2, p.titles[1], 'middle');
  title(p.width, p.titles[2], 'end');
  // Bands as wide as what they carry; where they meet they lie side by side.
  const from = first(at, p.sources.length), to = first(at, p.candidates.length), thick = narrow ? 30 : 46;
  const stacked = (values: number[]) => {
    const total = Math.max(1, values.reduce((x, y) => x + y, 0));
    let y = at.middle - (thick * values.reduce((x, v) => x + v, 0)) / total / 2;
    return values.map((v) => {
      const width = (thick * v) / total;
      y += width;
      return { width: Math.max(0.8, width), y: y - width / 2 };
    });
  };
  const band = (x1: number, y1: number, x2: number, y2: number, width: number) => {
    const bend = (x2 - x1) * 0.5;
    shapes.push({ type: 'path', d: [x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2], stroke: accent, width, opacity: width < 1.5 ? 0.3 : 0.5 });
  };
  stacked(p.sources.map((s) => s.weight)).forEach(({ width, y }, i) => band(at.sourceX, from + i * at.line, at.queryX, y, width));
  // The residual stream: one line that every layer adds to.
  shapes.push({ type: 'rect', x: at.queryX, y: at.middle - 2, w: at.stackEnd - at.queryX, h: 4, fill: accent, opacity: 0.5 });
  stacked(p.candidates.map((c) => c.probability ?? 1 / p.candidates.length)).forEach(({ width, y }, i) => band(at.stackEnd, y, at.answerX, to + i * at.line, width));
  const largest = Math.max(1e-9, ...p.layers.flatMap((l) => l ?? []));
  const side = at.cell - (at.cell > 8 ? 2 : 1);
  p.layers.forEach((heads, l) => {
    const x = at.stackX + l * at.column + (at.column - side) / 2, count = heads?.length ?? 0;
    if (count && at.column >= 22) shapes.push({ type: 'text', x: x + side / 2, y: at.middle + (count * at.cell) / 2 + 9, text: String(l), size: 11, anchor: 'middle', fill: soft });
    (heads ?? []).forEach((share, h) => {
      const y = at.middle - (count * at.cell) / 2 + h * at.cell;
      const on = l === p.layer && h === p.head;
      if (on) shapes.push({ type: 'rect', x: x - 2, y: y - 2, w: side + 4, h: side + 4, fill: accent });
      shapes.push({ type: 'rect', x: x - 0.5, y: y - 0.5, w: side + 1, h: side + 1, fill: line });
      shapes.push({ type: 'rect', x, y, w: side, h: side, fill: colorAt(p.theme, shade(share / largest, 'linear')) });
    });
  });
  p.sources.forEach((s, i) => shapes.push({ type: 'text', x: at.sourceX - 8, y: from + i * at.line, text: shorten(s.label, most), size: 14, anchor: 'end', fill: s.chosen ? accent : ink, weight: s.chosen ? 650 : 400 }));
  for (const x of [at.queryX, at.stackEnd]) shapes.push({ type: 'rect', x: x - 2, y: at.middle - thick / 2 - 2, w: 4, h: thick + 4, fill: accent });
  p.candidates.forEach((c, i) => {
    const y = to + i * at.line;
    shapes.push({ type: 'text', x: at.answerX + 8, y, text: shorten(c.label, c.probability === null ? 14 : most), size: 14, fill: ink, weight: i === 0 ? 650 : 400 });
    if (c.probability !== null) shapes.push({ type: 'text', x: p.width, y, text: c.probability < 0.0005 ? '< 0.1 %' : `${(100 * c.probability).toFixed(c.probability < 0.0995 ? 1 : 0)} %`, size: 12, anchor: 'end', fill: soft });
  });
  return { width: p.width, height: at.height, shapes };
}

/// What lies at a point: a source, or a head of a layer.
export function flowAt(p: FlowPicture, x: number, y: number): { source: number } | { layer: number; head: number } | null {
  const at = layoutFlow(p);
  if (x <= at.sourceX + 4) {
    const i = Math.round((y - first(at, p.sources.length)) / at.line);
    return i >= 0 && i < p.sources.length ? { source: p.sources[i].index } : null;
  }
  const layer = Math.floor((x - at.stackX) / at.column), count = p.layers[layer]?.length ?? 0;
  const head = Math.floor((y - at.middle + (count * at.cell) / 2) / at.cell);
  return layer >= 0 && layer < p.layers.length && head >= 0 && head < count ? { layer, head } : null;
}
