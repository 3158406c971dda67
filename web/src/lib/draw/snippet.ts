import { numbers } from '../api/tensor';
import type { HeadData, Tile } from '../api/types';
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
    ...h, mask, weights: numbers(tile.values) as Float32Array,
    title: `heed: ${trace.model}, ${kind} attention, layer ${layer}, head ${head}: ${text}`,
  });
}
