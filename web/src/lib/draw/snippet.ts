import { numbers, row, tensor } from '../api/tensor';
import type { HeadData, Rows, Tile, Trace } from '../api/types';
import { headNumbers, mayAttend } from '../math/attention';
import { session } from '../state/session.svelte';
import { attentionSnippet } from './export';

/// Blocks of 256 rows: the ranges that the page asks for, and that an offline file holds.
export function block(position: number, size: number): [number, number] {
  const from = Math.floor(position / 256) * 256;
  return [from, Math.min(size, from + 256)];
}

/// The program for one head of the shown trace; only where its matrix is one tile.
export async function headSnippet(kind: string, layer: number, head: number): Promise<string | null> {
  const trace = session.trace;
  const size = trace?.attentions.find((a) => a.kind === kind);
  if (!trace || !size || size.queries > 256 || size.keys > 256) return null;
  const data = await session.ask<HeadData>('head', { kind, layer, head, queries: [0, size.queries], keys: [0, size.keys] }, trace);
  const tile = await session.ask<Tile>('tile', { kind, layer, head, what: 'weights', level: 0, row: 0, column: 0 }, trace);
  const h = headNumbers(data, size.keys);
  const mask = new Uint8Array(h.queries * h.keys);
  for (let r = 0; r < h.queries; ++r) for (let c = 0; c < h.keys; ++c) mask[r * h.keys + c] = mayAttend(h, r, c) ? 1 : 0;
  const text = (trace.input.text ?? '').replace(/\s+/g, ' ').slice(0, 80);
  return attentionSnippet({
    ...h, mask, global: data.global ? { rows: numbers(data.global.rows) as Uint8Array, v: numbers(data.global.v) as Float32Array } : null, weights: numbers(tile.values) as Float32Array,
    title: `heed: ${trace.model}, ${kind} attention, layer ${layer}, head ${head}: ${text}`,
  });
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
