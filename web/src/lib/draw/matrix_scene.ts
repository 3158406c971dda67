import { type ScaleMode, type Theme, colorAt, inkOn, shade, shadeSigned } from './color';
import type { Scene, Shape } from './scene';

export interface MatrixPicture {
  values: ArrayLike<number>; rows: number; columns: number;
  rowLabels: string[]; columnLabels: string[];
  mode: ScaleMode; signed: boolean; most: number; theme: Theme;
  cell: number; // side of a cell in pixels
  digits?: number; // write the numbers into the cells
}
export interface MatrixLayout { left: number; top: number; cellWidth: number; cellHeight: number; width: number; height: number }

const inks = { light: { text: '#3b4252', line: '#d7dbe3' }, dark: { text: '#c3cad8', line: '#333b4b' } };

/// Width of a label, guessed without a canvas: wide characters count double.
export function labelWidth(text: string, size: number): number {
  let width = 0;
  for (const c of text) width += c.codePointAt(0)! > 0x2e80 ? size : size * 0.58;
  return width;
}
export function shorten(text: string, most: number): string {
  let width = 0;
  let out = '';
  for (const c of text) {
    width += c.codePointAt(0)! > 0x2e80 ? 2 : 1;
    if (width > most) return `${out}…`;
    out += c;
  }
  return out;
}

export function layoutMatrix(p: MatrixPicture): MatrixLayout {
  const size = fontSize(p.cell);
  const widest = (labels: string[]) => labels.reduce((w, l) => Math.max(w, labelWidth(shorten(l, 16), size)), 0);
  const left = p.rowLabels.length ? Math.ceil(widest(p.rowLabels)) + 10 : 1;
  const top = p.columnLabels.length ? Math.ceil(widest(p.columnLabels) * 0.87) + 12 : 1;
  // Slanted labels of the last columns reach beyond the matrix.
  const right = p.columnLabels.length ? Math.ceil(widest(p.columnLabels.slice(-3)) * 0.5) + 8 : 1;
  return { left, top, cellWidth: p.cell, cellHeight: p.cell, width: left + p.columns * p.cell + right, height: top + p.rows * p.cell + 1 };
}
/// The side of a cell with which a matrix fits a width: down to 9 pixels where there are labels; wider maps scroll.
export function fittedCell(p: Omit<MatrixPicture, 'cell'>, width: number, most: number): number {
  const outer = layoutMatrix({ ...p, cell: 16 });
  const room = (width - outer.left - (outer.width - outer.left - p.columns * 16)) / p.columns;
  return Math.max(p.rowLabels.length ? 9 : 2, Math.min(most, Math.floor(room)));
}
function fontSize(cell: number): number {
  return cell >= 22 ? 13 : cell >= 15 ? 12 : 11;
}
/// Labels that would overlap are left out: every n-th is written.
function stride(cell: number): number {
  return Math.max(1, Math.ceil(12 / cell));
}

export function matrixScene(p: MatrixPicture): Scene {
  const at = layoutMatrix(p);
  const shapes: Shape[] = [];
  const size = fontSize(p.cell);
  const gap = p.cell >= 12 ? 1 : 0;
  for (let r = 0; r < p.rows; ++r) {
    let most = 0;
    for (let c = 0; c < p.columns; ++c) most = Math.max(most, p.values[r * p.columns + c]);
    for (let c = 0; c < p.columns; ++c) {
      const value = p.values[r * p.columns + c];
      const share = p.signed ? shadeSigned(value, p.most) : shade(value, p.mode, most);
      const x = at.left + c * p.cell;
      const y = at.top + r * p.cell;
      if (value === -Infinity) { // hidden: nothing but a dot
        shapes.push({ type: 'rect', x: x + p.cell / 2 - 1.5, y: y + p.cell / 2 - 1.5, w: 2, h: 2, fill: inks[p.theme].line });
        continue;
      }
      shapes.push({ type: 'rect', x, y, w: p.cell - gap, h: p.cell - gap, fill: colorAt(p.theme, share, p.signed) });
      if (p.digits !== undefined && p.cell >= 34 && Number.isFinite(value)) {
        shapes.push({ type: 'text', x: x + p.cell / 2, y: y + p.cell / 2, text: value.toFixed(p.digits), size: 11, anchor: 'middle', fill: inkOn(p.theme, share, p.signed) });
      }
    }
  }
  const every = stride(p.cell), across = Math.max(1, Math.ceil(15 / p.cell)); // slanted labels stand further apart
  const ink = inks[p.theme].text;
  p.rowLabels.forEach((label, r) => {
    if (r % every === 0) shapes.push({ type: 'text', x: at.left - 6, y: at.top + (r + 0.5) * p.cell, text: shorten(label, 16), size, anchor: 'end', fill: ink });
  });
  p.columnLabels.forEach((label, c) => {
    if (c % across === 0) shapes.push({ type: 'text', x: at.left + (c + 0.5) * p.cell, y: at.top - 7, text: shorten(label, 16), size, rotate: -60, fill: ink });
  });
  return { width: at.width, height: at.height, shapes };
}
