import type { TensorJson } from './types';

export type Numbers = Float32Array | Float64Array | Int32Array | Uint8Array;
export interface Tensor { shape: number[]; data: Numbers }

const arrays = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u8: Uint8Array };
const decoded = new WeakMap<TensorJson, Tensor>();

/// Decodes a tensor once; later calls with the same object return the same arrays.
export function tensor(json: TensorJson): Tensor {
  const known = decoded.get(json);
  if (known) return known;
  const text = atob(json.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const count = json.shape.reduce((a, b) => a * b, 1);
  const Type = arrays[json.dtype];
  if (!Type || count * Type.BYTES_PER_ELEMENT !== bytes.length) {
    throw new Error(`tensor: ${bytes.length} bytes for ${json.dtype} [${json.shape}]`);
  }
  const result = { shape: json.shape, data: new Type(bytes.buffer) };
  decoded.set(json, result);
  return result;
}

export function numbers(json: TensorJson): Numbers {
  return tensor(json).data;
}

/// A view of row `r` of a matrix.
export function row(t: Tensor, r: number): Numbers {
  const width = t.shape[t.shape.length - 1];
  return t.data.subarray(r * width, (r + 1) * width) as Numbers;
}

export function encode(data: Numbers, shape: number[]): TensorJson {
  const dtype = data instanceof Float32Array ? 'f32' : data instanceof Float64Array ? 'f64' : data instanceof Int32Array ? 'i32' : 'u8';
  return { dtype, shape, data: toBase64(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
}
export function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}
