import { numbers, row, tensor } from '../api/tensor';
import type { HeadData, Rows, Tile, Trace } from '../api/types';
import { type HeadNumbers, headNumbers, mayAttend } from '../math/attention';
import { session } from '../state/session.svelte';
import { attentionSnippet } from './export';

/// Blocks of 256 rows: the ranges that the page asks for, and that an offline file holds.
export function block(position: number, size: number): [number, number] {
  const from = Math.floor(position / 256) * 256;
  return [from, Math.min(size, from + 256)];
}

const maskOf = (h: HeadNumbers) => Uint8Array.from({ length: h.queries * h.keys }, (_, i) => (mayAttend(h, Math.floor(i / h.keys), i % h.keys) ? 1 : 0));

/// The program for one head of the shown trace: all of its rows, or the row of one query where the matrix is more than one tile.
export async function headSnippet(kind: string, layer: number, head: number, query = session.query): Promise<string | null> {
  const trace = session.trace;
  const size = trace?.attentions.find((a) => a.kind === kind);
  if (!trace || !size) return null;
  const place = { kind, layer, head }, title = `heed: ${trace.model}, ${kind} attention, layer ${layer}, head ${head}`, text = (trace.input.text ?? '').replace(/\s+/g, ' ').slice(0, 80);
  if (size.queries > 256 || size.keys > 256) return attentionSnippet({ ...(await rowNumbers(trace, place, query, size.keys)), title: `${title}, query ${query} alone: ${text}` });
  const data = await session.ask<HeadData>('head', { ...place, queries: [0, size.queries], keys: [0, size.keys] }, trace);
  const tile = await session.ask<Tile>('tile', { ...place, what: 'weights', level: 0, row: 0, column: 0 }, trace);
  const h = headNumbers(data, size.keys);
  return attentionSnippet({
    ...h, mask: maskOf(h), global: data.global ? { rows: numbers(data.global.rows) as Uint8Array, v: numbers(data.global.v) as Float32Array } : null, weights: numbers(tile.values) as Float32Array,
    title: `${title}: ${text}`,
  });
}
const kKeys = 512; // of one answer
/// One row of a long text, its keys fetched part by part. Of its weights the engine tells the strongest; the others are NaN.
async function rowNumbers(trace: Trace, place: { kind: string; layer: number; head: number }, query: number, keys: number) {
  const parts: HeadNumbers[] = [];
  for (let from = 0; from < keys; from += kKeys) {
    const data = await session.ask<HeadData>('head', { ...place, queries: [query, query + 1], keys: [from, Math.min(keys, from + kKeys)] }, trace);
    parts.push(headNumbers(data, keys, 0));
  }
  const joined = (of: (h: HeadNumbers) => Float32Array | Uint8Array) => {
    const all = parts.map(of), made = new Float32Array(all.reduce((n, x) => n + x.length, 0));
    all.reduce((at, x) => (made.set(x, at), at + x.length), 0);
    return made;
  };
  const weights = new Float32Array(keys).fill(NaN);
  for (const { key, weight } of await strongestKeys(trace, place.kind, place.layer, place.head, query, 64)) weights[key] = weight;
  const first = parts[0];
  return { ...first, keys, k: joined((h) => h.k), v: joined((h) => h.v), bias: first.bias && joined((h) => h.bias!), mask: Uint8Array.from(joined(maskOf)), global: null, weights };
}

export interface Strong { key: number; weight: number }
/// The keys that a query looks at most, strongest first: from the tile that the map shows, where that is the whole matrix.
export async function strongestKeys(trace: Trace, kind: string, layer: number, head: number, query: number, count: number): Promise<Strong[]> {
  const size = trace.attentions.find((a) => a.kind === kind)!;
  if (size.queries <= 256 && size.keys <= 256) {
    const tile = await session.ask<Tile>('tile', { kind, layer, head, what: 'weights', level: 0, row: 0, column: 0 }, trace);
    const weights = row(tensor(tile.values), query);
    return Array.from(weights, (weight, key) => ({ key, weight })).filter((x) => x.weight > 0).sort((x, y) => y.weight - x.weight || x.key - y.key).slice(0, count);
  }
  const best = await session.ask<Rows>('rows', { kind, layer, head, queries: [query, query + 1], top_k: Math.min(count, size.keys) }, trace);
  const weight = tensor(best.weight).data;
  return Array.from(tensor(best.index).data, (key, i) => ({ key, weight: weight[i] })).filter((x) => x.key >= 0);
}
