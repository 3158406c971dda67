/// Numbers as the page writes them: a real minus, −∞, and no more digits than are read.
export function num(x: number, digits = 3): string {
  if (Number.isNaN(x)) return 'NaN';
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6) ? x.toExponential(1) : x.toFixed(digits);
  return text.replaceAll('-', '−');
}
export function percent(x: number): string {
  const p = 100 * x;
  return `${p >= 99.95 || p === 0 ? p.toFixed(0) : p >= 9.95 ? p.toFixed(1) : p >= 0.095 ? p.toFixed(1) : p < 0.01 ? '< 0.01' : p.toFixed(2)} %`;
}
/// A difference that should be nothing.
export function tiny(x: number): string {
  return x === 0 ? '0' : x.toExponential(1).replaceAll('-', '−');
}
/// A token for running text: its spaces made visible.
export function shown(label: string): string {
  return label === '' ? '∅' : label.replaceAll('\n', '⏎').replaceAll('\t', '⇥');
}
