// Colour scales in OKLab, where equal steps look equal. The sequential ramp runs from the paper to the ink of the theme; the
// diverging one from blue to orange, which all common kinds of colour blindness keep apart.

type Lab = [number, number, number];
export type Theme = 'light' | 'dark';
export type ScaleMode = 'absolute' | 'linear' | 'row' | 'log';

const sequential: Record<Theme, Lab[]> = {
  light: [[0.985, 0, -0.003], [0.87, -0.018, -0.045], [0.7, -0.028, -0.09], [0.52, -0.022, -0.125], [0.3, -0.004, -0.105]],
  dark: [[0.245, -0.002, -0.015], [0.4, -0.015, -0.085], [0.57, -0.035, -0.095], [0.77, -0.05, -0.03], [0.96, -0.02, 0.07]],
};
const diverging: Record<Theme, Lab[]> = {
  light: [[0.42, -0.025, -0.125], [0.7, -0.035, -0.08], [0.98, 0, 0], [0.74, 0.07, 0.1], [0.48, 0.095, 0.095]],
  dark: [[0.82, -0.06, -0.07], [0.52, -0.035, -0.1], [0.25, 0, 0], [0.55, 0.08, 0.1], [0.84, 0.05, 0.11]],
};

function channel(linear: number): number {
  const x = Math.min(1, Math.max(0, linear));
  return Math.round(255 * (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055));
}
function toRgb([lightness, a, b]: Lab): [number, number, number] {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    channel(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}
function table(anchors: Lab[]): Uint8Array {
  const colors = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; ++i) {
    const at = (i / 255) * (anchors.length - 1);
    const first = Math.min(Math.floor(at), anchors.length - 2);
    const t = at - first;
    const mixed = anchors[first].map((x, c) => x + t * (anchors[first + 1][c] - x)) as Lab;
    colors.set(toRgb(mixed), 3 * i);
  }
  return colors;
}
const tables = {
  sequential: { light: table(sequential.light), dark: table(sequential.dark) },
  diverging: { light: table(diverging.light), dark: table(diverging.dark) },
};

export function ramp(theme: Theme, signed = false): Uint8Array {
  return tables[signed ? 'diverging' : 'sequential'][theme];
}
export function colorAt(theme: Theme, share: number, signed = false): string {
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, share)));
  const t = ramp(theme, signed);
  return `rgb(${t[i]},${t[i + 1]},${t[i + 2]})`;
}
/// Black or white, whichever reads better on the colour.
export function inkOn(theme: Theme, share: number, signed = false): string {
  const i = 3 * Math.round(255 * Math.min(1, Math.max(0, share)));
  const t = ramp(theme, signed);
  const linear = [0, 1, 2].map((c) => {
    const x = t[i + c] / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? '#000' : '#fff'; // at least 4.5 : 1
}

/// A colour for each head of a layer, in OKLab: hues that lie far apart follow each other, and lightness changes with them.
export function headColor(theme: Theme, head: number): string {
  const hue = head * 2.39996, lightness = (theme === 'dark' ? 0.72 : 0.5) + 0.06 * ((head % 3) - 1);
  return `rgb(${toRgb([lightness, 0.125 * Math.cos(hue - 1.9), 0.125 * Math.sin(hue - 1.9)]).join(',')})`;
}

/// Where a weight lies on the sequential scale. Absolute: 0 … 1 with a gamma that keeps small weights visible, so that uniform
/// attention looks uniform and maps can be compared with each other.
export function shade(value: number, mode: ScaleMode, rowMax = 1, gamma = 0.5): number {
  if (!(value > 0)) return 0;
  switch (mode) {
    case 'linear': return Math.min(1, value);
    case 'row': return rowMax > 0 ? (value / rowMax) ** gamma : 0;
    case 'log': return Math.max(0, 1 + Math.log10(value) / 4); // 1e-4 … 1
    default: return Math.min(1, value) ** gamma;
  }
}
/// Where a signed value lies on the diverging scale, 0.5 being zero.
export function shadeSigned(value: number, most: number): number {
  if (!(most > 0) || !Number.isFinite(value)) return 0.5;
  const x = Math.max(-1, Math.min(1, value / most));
  return 0.5 + 0.5 * Math.sign(x) * Math.abs(x) ** 0.7;
}
