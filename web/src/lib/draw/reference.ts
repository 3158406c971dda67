// Weights that another program computed, to compare with those on the page: what `heed inspect --json` prints, or an array that
// NumPy saved, such as the attentions of a Hugging Face model.

export interface Reference {
  /// The weights of one head as rows × columns numbers, or null where the file has none of that size.
  weights(layer: number, head: number, rows: number, columns: number): ArrayLike<number> | null;
}

/// NumPy's format 1.0 to 3.0, little-endian f32 or f64, C order.
export function readNpy(bytes: Uint8Array): { shape: number[]; values: Float64Array } | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || bytes[0] !== 0x93 || new TextDecoder().decode(bytes.subarray(1, 6)) !== 'NUMPY') return null;
  const wide = bytes[6] > 1, begin = wide ? 12 : 10;
  const end = begin + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  const header = new TextDecoder().decode(bytes.subarray(begin, end));
  const kind = header.match(/'descr': *'([^']*)'/)?.[1], size = kind === '<f4' ? 4 : kind === '<f8' ? 8 : 0;
  if (!size || !/'fortran_order': *False/.test(header)) return null;
  const shape = (header.match(/'shape': *\(([^)]*)\)/)?.[1] ?? '').split(',').map((x) => x.trim()).filter(Boolean).map(Number);
  const count = shape.reduce((x, y) => x * y, 1);
  if (!(end + size * count <= bytes.length)) return null;
  return { shape, values: Float64Array.from({ length: count }, (_, i) => (size === 4 ? view.getFloat32(end + 4 * i, true) : view.getFloat64(end + 8 * i, true))) };
}

/// An array of one head, of the heads of each layer, or of all layers and heads; the last two dimensions are queries and keys.
function ofArray(bytes: Uint8Array, layers: number, heads: number): Reference | null {
  const array = readNpy(bytes);
  if (!array || array.shape.length < 2) return null;
  const [rows, columns] = array.shape.slice(-2), maps = array.shape.slice(0, -2).reduce((x, y) => x * y, 1);
  return {
    weights(layer, head, queries, keys) {
      if (rows !== queries || columns !== keys) return null;
      const at = maps === layers * heads ? layer * heads + head : maps === heads ? head : maps === 1 ? 0 : -1;
      return at < 0 ? null : array.values.subarray(at * rows * columns, (at + 1) * rows * columns);
    },
  };
}

interface InspectMap { layer: number; head: number; rows: number; columns: number; pooled: boolean; values: number[][] }

export function readReference(bytes: Uint8Array, layers: number, heads: number): Reference | null {
  const array = ofArray(bytes, layers, heads);
  if (array) return array;
  try {
    const { maps } = JSON.parse(new TextDecoder().decode(bytes)) as { maps: InspectMap[] };
    if (!Array.isArray(maps)) return null;
    return {
      weights: (layer, head, rows, columns) => maps.find((m) => m.layer === layer && m.head === head && m.rows === rows && m.columns === columns && !m.pooled)?.values.flat() ?? null,
    };
  } catch {
    return null;
  }
}
