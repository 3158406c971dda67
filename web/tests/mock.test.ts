import { describe, expect, it } from 'vitest';
import { numbers, tensor } from '../src/lib/api/tensor';
import type { Attribution, HeadData, Steps, Tile, Trace, Why } from '../src/lib/api/types';
import { MockServer } from '../mock/routes';

const mock = new MockServer();
const trace = (body: object) => mock.handle('POST', '/heed/v1/traces', body) as Trace;
const ask = <T>(t: Trace, route: string, body: object) => mock.handle('POST', `/heed/v1/traces/${t.id}/${route}`, body) as T;
const cases = [
  { model: 'tiny-gpt', text: 'the cat sat on a mat . the cat' },
  { model: 'tiny-bert', text: 'the capital of France is [MASK] .' },
  { model: 'tiny-seq2seq', text: 'the dog ran to the house' },
  { model: 'tiny-vit', image: 'abcdefghijklmnop' },
];

describe.each(cases)('$model', (body) => {
  const t = trace(body);
  it('splits every score into parts that add up to it', () => {
    for (const a of t.attentions) {
      for (let layer = 0; layer < a.layers; ++layer) {
        const w = ask<Why>(t, 'why', { kind: a.kind, layer, head: 1, query: a.queries - 1, key: 0 });
        const sum = Array.from(numbers(w.values)).reduce((x, y) => x + y, 0) + w.bias;
        expect(Math.abs(sum - w.score)).toBeLessThan(1e-9);
        expect(Math.abs(w.remainder)).toBeLessThan(1e-9);
      }
    }
  });
  it('attributes a logit to parts that add up to it', () => {
    const best = t.prediction.candidates[0];
    const a = ask<Attribution>(t, 'attribution', { position: t.prediction.position, token: best.id });
    expect(a.logit).toBeCloseTo(best.logit, 9);
    expect(a.parts.reduce((x, p) => x + p.value, 0)).toBeCloseTo(best.logit, 9);
  });
  it('has rows of weights that sum to 1 and agree with q and k', () => {
    for (const a of t.attentions) {
      const at = { kind: a.kind, layer: 0, head: 0 };
      const tile = tensor(ask<Tile>(t, 'tile', { ...at, what: 'weights', level: 0, row: 0, column: 0 }).values);
      expect(tile.shape).toEqual([a.queries, a.keys]);
      for (let r = 0; r < a.queries; ++r) {
        let sum = 0;
        for (let c = 0; c < a.keys; ++c) sum += tile.data[r * a.keys + c];
        expect(sum).toBeCloseTo(1, 5);
      }
      const head = ask<HeadData>(t, 'head', { ...at, queries: [0, a.queries], keys: [0, a.keys] });
      expect(head.q.shape[1]).toBe(8);
      expect(ask<Steps>(t, 'steps', { ...at, query: 0 }).neurons.length).toBe(12);
    }
  });
});

it('finds the induction head, and ablating it changes the prediction', () => {
  const t = trace(cases[0]);
  expect(t.prediction.candidates[0].token).toBe('sat');
  const e = ask<any>(t, 'experiment', { interventions: [{ type: 'head', kind: 'self', layer: 1, head: 0, scale: 0 }] });
  expect(e.after.candidates[0].token).not.toBe('sat');
  expect(e.kl).toBeGreaterThan(0.1);
});
