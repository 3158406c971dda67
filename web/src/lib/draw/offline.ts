import { requestKey } from '../api/client';
import { tensor } from '../api/tensor';
import type { Rows, Trace } from '../api/types';
import { locale } from '../i18n/index.svelte';
import { sel } from '../state/selection.svelte';
import { api, session } from '../state/session.svelte';
import { save } from './export';
import { block } from './snippet';

const kBudget = 24 * 1024 * 1024; // characters of responses

type Body = Record<string, unknown>;

/// The requests whose answers an offline page needs, most wanted first. `heed inspect --format html` stores the same.
export function* offlineRequests(trace: Trace, start: { kind: string; layer: number; head: number; query: number }, strongest: number[][]): Generator<[string, Body]> {
  for (const a of trace.attentions) for (let layer = 0; layer < a.layers; ++layer) yield ['heads', { kind: a.kind, layer }];
  for (const a of trace.attentions) {
    const level = Math.max(0, Math.ceil(Math.log2(Math.max(a.queries, a.keys) / 256)));
    for (let layer = 0; layer < a.layers; ++layer) for (let head = -1; head < a.heads; ++head) yield ['tile', { kind: a.kind, layer, head, what: 'weights', level, row: 0, column: 0 }];
  }
  for (const a of trace.attentions) if (Math.max(a.queries, a.keys) <= 256) yield ['tile', { kind: a.kind, layer: 0, head: -1, what: 'contribution', level: 0, row: 0, column: 0 }];
  const own = trace.attentions.find((a) => a.kind === start.kind)!;
  const blocks = (a: typeof own) => ({ queries: block(0, a.queries), keys: block(0, a.keys) });
  yield ['head', { kind: own.kind, layer: start.layer, head: start.head, ...blocks(own) }];
  for (let query = 0; query < Math.min(own.queries, 64); ++query) yield ['steps', { kind: own.kind, layer: start.layer, head: start.head, query }];
  for (let query = 0; query < Math.min(own.queries, 64); ++query) {
    for (const key of strongest[query] ?? []) yield ['why', { kind: own.kind, layer: start.layer, head: start.head, query, key }];
  }
  const position = trace.prediction.position;
  yield ['predict', { all_logits: true, position }];
  yield ['lens', { position }];
  for (const c of trace.prediction.candidates.slice(0, 5)) yield ['attribution', { position, token: c.id }];
  for (const p of trace.predictions_at.slice(0, 64)) yield ['predict', { position: p }];
  for (const a of trace.attentions) {
    for (let layer = 0; layer < a.layers; ++layer) {
      for (let head = 0; head < a.heads; ++head) {
        yield ['rows', { kind: a.kind, layer, head, queries: [0, Math.min(200, a.queries)], top_k: Math.min(16, a.keys) }];
        yield ['head', { kind: a.kind, layer, head, ...blocks(a) }];
        if (a.kind === own.kind) yield ['steps', { kind: a.kind, layer, head, query: start.query }];
      }
    }
  }
}

/// Fetches what the requests give and writes the page with it inside.
export async function offlinePage(page: string): Promise<string> {
  const trace = session.trace!;
  const a = session.attention!;
  const start = { kind: a.kind, layer: session.layer, head: session.head, query: session.query, key: sel.key };
  const count = Math.min(a.queries, 64);
  const rows = await session.ask<Rows>('rows', { kind: a.kind, layer: start.layer, head: start.head, queries: [0, count], top_k: Math.min(a.keys, a.keys <= 24 ? 24 : 8) }, trace);
  const index = tensor(rows.index);
  const strongest = Array.from({ length: count }, (_, r) => Array.from(index.data.subarray(r * index.shape[1], (r + 1) * index.shape[1])).filter((j) => j >= 0));
  const models = session.models!;
  const responses: Record<string, unknown> = { [requestKey('GET', '/heed/v1/models')]: { ...models, models: models.models.filter((m) => m.id === trace.model), runs: [], start: {} } };
  let size = 0;
  for (const [route, body] of offlineRequests(trace, start, strongest)) {
    const answer = await session.ask<object>(route, body, trace).catch(() => null);
    if (!answer) continue;
    size += JSON.stringify(answer).length;
    if (size > kBudget) break;
    responses[requestKey('POST', `/heed/v1/traces/t/${route}`, body)] = answer;
  }
  const data = { version: 1, language: locale.language, start: { trace: { ...trace, id: 't' }, ...start }, responses };
  const json = JSON.stringify(data).replaceAll('<', '\\u003c');
  const marker = ['<!--heed', 'data-->'].join('-');
  if (!page.includes(marker)) throw new Error('the page has no place for its data');
  return page.replace(marker, () => `<script type="application/json" id="heed-data">${json}</${'script'}>`);
}
export async function saveOffline() {
  const page = await (await fetch(location.pathname)).text();
  save(`heed-${api.offline ? 'copy' : session.trace!.model.replace(/[^\w.-]+/g, '-')}.html`, await offlinePage(page), 'text/html;charset=utf-8');
}
