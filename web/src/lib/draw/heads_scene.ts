import type { Tensor } from '../api/tensor';
import type { ScaleMode, Theme } from './color';
import { heatImage } from './heat_image';
import type { Scene, Shape } from './scene';

export interface HeadPicture { map: Tensor; label: string; detail?: string }

/// Heads side by side, each a small picture of its weights with what is said of it below.
export function headsScene(heads: HeadPicture[], columns: number, side: number, theme: Theme, mode: ScaleMode): Scene {
  const ink = theme === 'dark' ? '#e9ecf2' : '#171b26', soft = theme === 'dark' ? '#a4aec0' : '#545d70', line = theme === 'dark' ? '#2c3340' : '#e2e5eb';
  const gap = 12, lines = heads.some((h) => h.detail) ? 34 : 18, wide = side + gap, high = side + lines + gap;
  const shapes = heads.flatMap(({ map, label, detail }, i): Shape[] => {
    const x = gap + (i % columns) * wide, y = gap + Math.floor(i / columns) * high;
    return [
      { type: 'rect', x: x - 1, y: y - 1, w: side + 2, h: side + 2, fill: line },
      { type: 'image', x, y, w: side, h: side, source: heatImage(map, theme, mode) },
      { type: 'text', x, y: y + side + 10, text: label, size: 12, weight: 650, fill: ink },
      ...(detail ? [{ type: 'text' as const, x, y: y + side + 25, text: detail, size: 11, fill: soft }] : []),
    ];
  });
  return { width: gap + Math.min(columns, heads.length) * wide, height: gap + Math.ceil(heads.length / columns) * high, shapes };
}
