import type { Theme } from './color';
import { labelWidth } from './matrix_scene';
import type { Scene, Shape } from './scene';

export interface Series { label: string; values: (number | null)[]; color?: string; dash?: number[] }
export interface CurvesPicture { x: number[]; series: Series[]; xLabel: string; theme: Theme }

const palettes = { dark: ['#92b4ff', '#f0a45c', '#7fd0a0', '#d9a0e8', '#9ad7e0', '#e6d27a'], light: ['#1f4fbf', '#b4590b', '#1d6b3f', '#8a3fa3', '#0f7080', '#7a6410'] };
export function seriesColor(theme: Theme, s: Series, index: number): string {
  return s.color ?? palettes[theme][index % palettes[theme].length];
}
/// A number as an axis writes it.
export function tick(v: number): string {
  return v !== 0 && Math.abs(v) < 0.01 ? v.toExponential(0) : String(Number(v.toPrecision(4)));
}
/// Round numbers from low to high, about `count` of them.
function ticks(low: number, high: number, count: number): number[] {
  const rough = (high - low || 1) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough)!;
  return Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, i) => (Math.ceil(low / step) + i) * step);
}

/// Curves with their axes, for SVG and PNG; on the screen uPlot draws them.
export function curvesScene(p: CurvesPicture): Scene {
  const width = 760, height = 380, left = 64, right = 20, top = 36, bottom = 46;
  const ink = p.theme === 'dark' ? '#a4aec0' : '#545d70', line = p.theme === 'dark' ? '#2c3340' : '#e2e5eb';
  const all = p.series.flatMap((s) => s.values.filter((v): v is number => v !== null && Number.isFinite(v)));
  const [x0, x1] = [p.x[0] ?? 0, p.x[p.x.length - 1] ?? 1], y0 = Math.min(...all), y1 = Math.max(...all);
  const x = (v: number) => left + ((v - x0) / (x1 - x0 || 1)) * (width - left - right);
  const y = (v: number) => height - bottom - ((v - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const shapes: Shape[] = [];
  for (const v of all.length ? ticks(y0, y1, 5) : []) {
    shapes.push({ type: 'line', x1: left, y1: y(v), x2: width - right, y2: y(v), stroke: line, width: 1 });
    shapes.push({ type: 'text', x: left - 8, y: y(v), text: tick(v), size: 12, anchor: 'end', fill: ink });
  }
  for (const v of ticks(x0, x1, 8)) shapes.push({ type: 'text', x: x(v), y: height - bottom + 14, text: tick(v), size: 12, anchor: 'middle', fill: ink });
  shapes.push({ type: 'text', x: (left + width - right) / 2, y: height - 10, text: p.xLabel, size: 12, anchor: 'middle', fill: ink });
  let at = left;
  p.series.forEach((s, i) => {
    const stroke = seriesColor(p.theme, s, i);
    const points = s.values.map((v, j) => ({ v, at: p.x[j] })).filter((q): q is { v: number; at: number } => q.v !== null && Number.isFinite(q.v));
    points.slice(1).forEach((q, j) => shapes.push({ type: 'line', x1: x(points[j].at), y1: y(points[j].v), x2: x(q.at), y2: y(q.v), stroke, width: 2 }));
    shapes.push({ type: 'line', x1: at, y1: 16, x2: at + 18, y2: 16, stroke, width: 3 });
    shapes.push({ type: 'text', x: at + 24, y: 16, text: s.label, size: 12, fill: ink });
    at += 44 + labelWidth(s.label, 12);
  });
  return { width, height, shapes };
}
