import { requestKey } from '../api/client';
import type { Trace } from '../api/types';
import { locale } from '../i18n/index.svelte';
import { sel } from '../state/selection.svelte';
import { api, session } from '../state/session.svelte';
import { save } from './export';
import { block, strongestKeys } from './snippet';

const kBudget = 24 * 1024 * 1024; // characters of responses

type Body = Record<string, unknown>;
/// Stands for one request for each of a query's strongest keys.
interface Strongest { strongest: number; kind: string; layer: number; head: number; query: number }

/// The requests whose answers an offline page needs, most wanted first. `heed inspect --format html` stores the same.
export function* offlineRequests(trace: Trace, start: { kind: string; layer: number; head: number; query: number }): Generator<[string, Body | Strongest]> {
  for (const a of trace.attentions) for (let layer = 0; layer < a.layers; ++layer) yield ['heads', { kind: a.kind, layer }];
  for (const a of trace.attentions) {
    const level = Math.max(0, Math.ceil(Math.log2(Math.max(a.queries, a.keys) / 256)));
    for (let layer = 0; layer < a.layers; ++layer) for (let head = -1; head < a.heads; ++head) yield ['tile', { kind: a.kind, layer, head, what: 'weights', level, row: 0, column: 0 }];
  }
  for (const a of trace.attentions) if (Math.max(a.queries, a.keys) <= 256) yield ['tile', { kind: a.kind, layer: 0, head: -1, what: 'contribution', level: 0, row: 0, column: 0 }];
  const own = trace.attentions.find((a) => a.kind === start.kind)!;
  const blocks = (a: typeof own) => ({ queries: block(0, a.queries), keys: block(0, a.keys) });
  yield ['head', { kind: own.kind, layer: start.layer, head: start.head, ...blocks(own) }];
  const queries = [start.query, ...Array.from({ length: Math.min(own.queries, 64) }, (_, i) => i).filter((i) => i !== start.query)];
  for (const query of own.kind === 'readout' ? [] : queries) yield ['steps', { kind: own.kind, layer: start.layer, head: start.head, query }];
  const count = Math.max(own.queries, own.keys) <= 24 ? 24 : 8;
  for (const query of own.kind === 'readout' ? [] : queries) yield ['why', { strongest: count, kind: own.kind, layer: start.layer, head: start.head, query }];
  const position = trace.prediction.position;
  yield ['predict', { all_logits: true, position }];
  yield ['lens', { position }];
  for (const c of trace.prediction.candidates.slice(0, 5)) yield ['attribution', { position, token: c.id }];
  for (const p of trace.predictions_at.slice(0, 64)) yield ['predict', { position: p }];
  for (const what of ['value_weighted', 'scores']) {
    const level = Math.max(0, Math.ceil(Math.log2(Math.max(own.queries, own.keys) / 256)));
    yield ['tile', { kind: own.kind, layer: start.layer, head: start.head, what, level, row: 0, column: 0 }];
  }
  for (const a of trace.attentions) {
    for (let layer = 0; layer < a.layers; ++layer) {
      for (let head = 0; head < a.heads; ++head) {
        yield ['rows', { kind: a.kind, layer, head, queries: [0, Math.min(200, a.queries)], top_k: Math.min(16, a.keys) }];
        yield ['head', { kind: a.kind, layer, head, ...blocks(a) }];
      }
    }
  }
  // What Steps and Why show where only another head or attention is chosen.
  for (const a of trace.attentions) {
    if (a.kind === 'readout') continue; // a pointer at a word: no layer around it
    const query = Math.min(start.query, a.queries - 1);
    for (let layer = 0; layer < a.layers; ++layer) {
      for (let head = 0; head < a.heads; ++head) {
        yield ['steps', { kind: a.kind, layer, head, query }];
        yield ['why', { strongest: 1, kind: a.kind, layer, head, query }];
      }
    }
  }
}

/// Fetches what the requests give and writes the page with it inside.
export async function offlinePage(page: string): Promise<string> {
  const trace = session.trace!;
  const a = session.attention!;
  const start = { kind: a.kind, layer: session.layer, head: session.head, query: session.query, key: sel.key };
  const models = session.models!;
  const responses: Record<string, unknown> = { [requestKey('GET', '/heed/v1/models')]: { ...models, models: models.models.filter((m) => m.id === trace.model), runs: [], start: {} } };
  let size = 0;
  const keep = async (route: string, body: object) => {
    const key = requestKey('POST', `/heed/v1/traces/t/${route}`, body);
    if (key in responses) return;
    const answer = await session.ask<object>(route, body, trace).catch(() => null);
    if (!answer) return;
    size += JSON.stringify(answer).length;
    if (size <= kBudget) responses[key] = answer;
  };
  for (const [route, body] of offlineRequests(trace, start)) {
    if (size > kBudget) break;
    if (!('strongest' in body)) {
      await keep(route, body);
      continue;
    }
    const { strongest, ...place } = body as Strongest;
    for (const { key } of await strongestKeys(trace, place.kind, place.layer, place.head, place.query, strongest).catch(() => [])) await keep(route, { ...place, key });
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
