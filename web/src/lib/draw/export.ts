import { encode, type Numbers } from '../api/tensor';
import { type Scene, toPng, toSvg } from './scene';

/// Numbers behind a picture: what CSV, .npy and the table show.
export interface DataTable { values: ArrayLike<number>; shape: [number, number]; rowLabels: string[]; columnLabels: string[] }

export function save(name: string, content: Blob | string, type = 'text/plain;charset=utf-8') {
  const blob = typeof content === 'string' ? new Blob([content], { type }) : content;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function quote(text: string): string {
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
/// RFC 4180 with a header; labels that a spreadsheet would run as formulas get a quote in front.
export function toCsv(table: DataTable): string {
  const safe = (label: string) => quote(/^[=+\-@]/.test(label) ? `'${label}` : label);
  const [rows, columns] = table.shape;
  const lines = [['', ...table.columnLabels.map(safe)].join(',')];
  for (let r = 0; r < rows; ++r) {
    const cells = [safe(table.rowLabels[r] ?? String(r))];
    for (let c = 0; c < columns; ++c) cells.push(String(table.values[r * columns + c]));
    lines.push(cells.join(','));
  }
  return `${lines.join('\r\n')}\r\n`;
}

/// NumPy's format 1.0, f32, C order.
export function toNpy(values: ArrayLike<number>, shape: number[]): Uint8Array {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const header = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + '\n';
  const bytes = new Uint8Array(10 + header.length + 4 * values.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; ++i) view.setFloat32(10 + header.length + 4 * i, values[i], true);
  return bytes;
}

export async function saveScene(scene: Scene, title: string, name: string, format: 'svg' | 'png') {
  if (format === 'svg') save(`${name}.svg`, toSvg(scene, title), 'image/svg+xml');
  else save(`${name}.png`, await toPng(scene));
}
export function saveTable(table: DataTable, name: string, format: 'csv' | 'npy') {
  // A byte order mark makes spreadsheets read Korean labels as UTF-8.
  if (format === 'csv') save(`${name}.csv`, `\ufeff${toCsv(table)}`, 'text/csv;charset=utf-8');
  else save(`${name}.npy`, new Blob([toNpy(table.values, table.shape) as BlobPart], { type: 'application/octet-stream' }));
}

function literal(values: Numbers, shape: number[]): string {
  return `array("${encode(values, shape).data}", ${JSON.stringify(shape)})`;
}
/// A Python program that recomputes one head's weights from its q and k and compares them with the page's.
export function attentionSnippet(p: {
  title: string; q: Float32Array; k: Float32Array; v: Float32Array; queries: number; keys: number; headDim: number; valueDim: number;
  scale: number; softcap: number; bias: Float32Array | null; mask: Uint8Array; weights: Float32Array; z: Float32Array;
  global: { rows: Uint8Array; v: Float32Array } | null; // 1 for each row that reads these values in place of v
}): string {
  const floats = (name: string, data: Float32Array, shape: number[]) => `${name} = ${literal(data, shape)}`;
  const global = p.global && Array.from(p.global.rows.keys()).filter((row) => p.global!.rows[row]);
  return `# ${p.title}
# Recomputes the weights of one attention head with NumPy: softmax(q kᵀ · scale + bias) and their product with v.
import base64
import numpy as np


def array(text, shape, dtype="<f4"):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape).astype(np.float64)


${floats('q', p.q, [p.queries, p.headDim])}
${floats('k', p.k, [p.keys, p.headDim])}
${floats('v', p.v, [p.keys, p.valueDim])}
${global ? `global_rows = ${JSON.stringify(global)}\n${floats('global_v', p.global!.v, [p.keys, p.valueDim])}\n` : ''}${p.bias ? floats('bias', p.bias, [p.queries, p.keys]) : 'bias = 0.0'}
mask = array("${encode(p.mask, [p.mask.length]).data}", [${p.queries}, ${p.keys}], "u1") > 0
expected_weights = ${literal(p.weights, [p.queries, p.keys])}
expected_z = ${literal(p.z, [p.queries, p.valueDim])}

scores = q @ k.T * ${p.scale}
${p.softcap > 0 ? `scores = ${p.softcap} * np.tanh(scores / ${p.softcap})\n` : ''}scores = np.where(mask, scores + bias, -np.inf)
largest = scores.max(axis=1, keepdims=True)
exponentials = np.exp(scores - np.where(np.isfinite(largest), largest, 0.0))
weights = exponentials / np.maximum(exponentials.sum(axis=1, keepdims=True), 1e-300)
z = weights @ v
${global ? 'z[global_rows] = weights[global_rows] @ global_v # global tokens have values of their own\n' : ''}
print("weights\\n", weights.round(4))
print("largest difference of the weights:", np.nanmax(np.abs(weights - expected_weights)))
print("largest difference of weights @ v:", np.abs(z - expected_z).max())
`;
}
