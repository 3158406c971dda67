import type { Tensor } from '../api/tensor';
import { type ScaleMode, type Theme, ramp, shade, shadeSigned } from './color';

/// Numbers as an image, one pixel for each: for maps with more cells than shapes are worth. `most` > 0: signed numbers up to it.
export function heatImage(map: Tensor, theme: Theme, mode: ScaleMode, most = 0): HTMLCanvasElement {
  const [rows, columns] = map.shape, image = document.createElement('canvas');
  [image.height, image.width] = [rows, columns];
  const ctx = image.getContext('2d')!, pixels = ctx.createImageData(columns, rows), colors = ramp(theme, most > 0);
  for (let r = 0; r < rows; ++r) {
    let largest = 0;
    for (let c = 0; c < columns; ++c) largest = Math.max(largest, map.data[r * columns + c]);
    for (let c = 0; c < columns; ++c) {
      const at = r * columns + c, share = most > 0 ? shadeSigned(map.data[at], most) : shade(map.data[at], mode, largest), color = 3 * Math.round(255 * share);
      pixels.data.set([colors[color], colors[color + 1], colors[color + 2], 255], 4 * at);
    }
  }
  ctx.putImageData(pixels, 0, 0);
  return image;
}
