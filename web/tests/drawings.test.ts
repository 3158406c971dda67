import { inflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { tensor } from '../src/lib/api/tensor';
import type { HeadData, Heads, Steps, Trace } from '../src/lib/api/types';
import { examplePixels, toPngFile } from '../src/lib/draw/example_image';
import { planesOf, sizeOf, stackOf, stacksOf, stopOf, stopsOf } from '../src/lib/draw/model_blocks';
import { type ModelPicture, blockAt, drawModel, nextBlock } from '../src/lib/draw/model_scene';
import { pooled, stageScene } from '../src/lib/draw/motion';
import { type StageNumbers, stepNames, stepStage } from '../src/lib/draw/step_stages';
import { headNumbers, keyOf, rowSteps } from '../src/lib/math/attention';
import { MockServer } from '../mock/routes';

const mock = new MockServer();
const traceOf = (id: string) => mock.handle('POST', '/heed/v1/traces', { model: id, text: 'the cat sat on a [MASK] .', image: 'abcdef' }) as Trace;

function numbersOf(id: string): StageNumbers {
  const trace = traceOf(id), a = trace.attentions.at(-1)!, r = Math.min(2, a.queries - 1), at = { kind: a.kind, layer: 1, head: 0 };
  const h = headNumbers(mock.handle('POST', `/heed/v1/traces/${trace.id}/head`, { ...at, queries: [0, a.queries], keys: [0, a.keys] }) as HeadData, a.keys), own = rowSteps(h, r);
  return {
    s: mock.handle('POST', `/heed/v1/traces/${trace.id}/steps`, { ...at, query: r }) as Steps, h, r, own, chosen: keyOf(h, own, -1), itself: a.query_side === a.key_side ? r : -1,
    query: 'word', key: (c) => `key ${c}`, candidates: trace.prediction.candidates.map((c) => ({ label: c.token, probability: c.probability })),
    words: { position: 'position', head: (i) => `head ${i}`, neurons: 'neurons' },
  };
}

describe('the motion of a step', () => {
  for (const id of mock.models.map((m) => m.info.id)) {
    it.each(stepNames)(`${id}, %s: everything that flies arrives in the picture, and at the end nothing is on its way`, (step) => {
      for (const width of [330, 900]) {
        const stage = stepStage(step, numbersOf(id), width, 'light');
        expect(stage.flights.length).toBeGreaterThan(0);
        for (const f of stage.flights) {
          expect(f.start).toBeGreaterThanOrEqual(0);
          expect(f.end).toBeLessThanOrEqual(1.0001);
          expect(f.end).toBeGreaterThan(f.start);
          for (const box of [f.from, f.to]) {
            expect(box.x).toBeGreaterThan(-1);
            expect(box.x + box.w).toBeLessThanOrEqual(width + 1);
            expect(box.y + box.h).toBeLessThanOrEqual(stage.height + 1);
          }
        }
        const end = stageScene(stage, 1, 'light').shapes.length, middle = stageScene(stage, 0.5, 'light');
        expect(end).toBe(stage.marks.length + stage.labels.length + stage.bands.length);
        expect(stageScene(stage, 0, 'light').shapes.length).toBeLessThan(end);
        expect(JSON.stringify(middle)).not.toBe(JSON.stringify(stageScene(stage, 0.6, 'light')));
        expect(JSON.stringify(middle)).not.toMatch(/NaN|null/);
      }
    });
  }
  it('weights × values: bands are as wide as the weights', () => {
    const n = numbersOf('tiny-gpt'), { bands } = stepStage('mix', n, 900, 'light');
    const shown = Array.from(n.own.weights).filter((_, i) => n.own.masked[i] > -Infinity);
    expect(bands.map((b) => b.width)).toEqual(shown.map((w) => Math.max(0.6, 26 * w)));
  });
  it('of neighbours the number of largest magnitude is shown', () => expect(pooled([1, -3, 0, 2, 0.5, -0.1], 3)).toEqual([-3, 2, 0.5]));
});

describe('the whole model', () => {
  const pictureOf = (id: string, width: number, compact = false): ModelPicture => {
    const { info } = mock.models.find((m) => m.info.id === id)!, trace = traceOf(id), { kind } = trace.attentions.at(-1)!;
    const { heads } = mock.handle('POST', `/heed/v1/traces/${trace.id}/heads`, { kind, layer: 1 }) as Heads;
    return {
      width, theme: 'dark', stacks: stacksOf(info, trace), planes: planesOf(info, trace, kind, 1), kind, layer: 1, head: 2, step: 7, focus: 3, compact,
      shares: () => heads.map((h) => h.output_share), map: (head) => tensor(heads[head].thumbnail),
      words: { input: () => 'in 10×20', output: 'out', readout: 'read', mlp: 'mlp', stack: (k) => k, opened: 'opened', heads: (n) => String(n) },
    };
  };
  it.each(mock.models.map((m) => m.info.id))('%s: every head of every layer is a block that can be hit and reached by arrow keys', (id) => {
    const trace = traceOf(id), wanted = trace.attentions.reduce((sum, a) => sum + a.layers * a.heads, 0);
    for (const width of [330, 1180]) {
      const { scene, blocks } = drawModel(pictureOf(id, width));
      expect(blocks.filter((b) => b.part?.type === 'attention').length).toBe(wanted);
      expect(JSON.stringify(scene)).not.toMatch(/NaN|null/);
      for (const b of blocks) for (let i = 0; i < b.points.length; i += 2) {
        expect(b.points[i]).toBeGreaterThanOrEqual(0);
        expect(b.points[i]).toBeLessThanOrEqual(width + 1);
        expect(b.points[i + 1]).toBeLessThanOrEqual(scene.height);
      }
      // From the middle of a tower's top to the block itself.
      blocks.filter((b) => b.part).forEach((b) => expect(blocks[blockAt(blocks, (b.points[0] + b.points[4]) / 2, (b.points[1] + b.points[5]) / 2)]).toBe(b));
      const reached = new Set([0]);
      for (let list = [0]; list.length; ) list = list.flatMap((i) => ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight'].map((key) => nextBlock(blocks, i, key))).filter((i) => !reached.has(i) && reached.add(i));
      expect(reached.size).toBe(blocks.length);
    }
    expect(drawModel(pictureOf(id, 200, true)).blocks.some((b) => b.plane)).toBe(false);
  });
  it('sizes are those of the pass, and edges grow with their square root', () => {
    const { info } = mock.models[0], trace = traceOf(info.id), size = sizeOf(info, trace, 'self');
    expect(size).toEqual({ hidden: info.hidden_size, inner: info.intermediate_size });
    const picture = pictureOf(info.id, 1180), [w1, w2] = drawModel(picture).blocks.filter((b) => b.plane?.name.startsWith('W_1') || b.plane?.name === 'W_2');
    const tall = (b: typeof w1) => b.points[7] - b.points[1], deep = (b: typeof w1) => b.points[2] - b.points[0];
    expect(tall(w2) / tall(w1)).toBeCloseTo(Math.sqrt(size.inner / size.hidden), 5);
    expect(deep(w1) / deep(w2)).toBeCloseTo(Math.sqrt(size.inner / size.hidden), 5);
    expect(blockAt([], 1, 1)).toBe(-1);
  });
  it('the way through it goes from the input over every layer to the prediction', () => {
    for (const { info } of mock.models) {
      const trace = traceOf(info.id), stacks = stacksOf(info, trace), stops = stopsOf(stacks);
      expect(stops[0]).toEqual({ kind: stacks[0].kind, layer: 0, step: 0 });
      expect(stops.at(-1)!.step).toBe(10);
      // One stop for each input and feed-forward, three for each attention, and the prediction.
      const attentions = trace.attentions.reduce((sum, a) => sum + a.layers, 0), layers = trace.attentions.filter((a) => a.kind !== 'cross').reduce((sum, a) => sum + a.layers, 0);
      expect(stops.length).toBe(stacks.length + 3 * attentions + layers + 1);
      stops.forEach((stop, i) => expect(stopOf(stops, stacks, stop.kind, stop.layer, stop.step)).toBe(i));
      const { kind } = trace.attentions.at(-1)!;
      expect(stops[stopOf(stops, stacks, kind, 1, 3)]).toEqual({ kind, layer: 1, step: 5 }); // between query and result: at the weights
    }
    const two = stacksOf(mock.models.find((m) => m.info.family === 'encoder-decoder')!.info, traceOf(mock.models.find((m) => m.info.family === 'encoder-decoder')!.info.id));
    expect([...new Set(stopsOf(two).map((s) => s.kind))]).toEqual(['encoder', 'decoder', 'cross']); // what is read before what is written
    expect(stackOf(two, 'cross')).toBe('decoder');
  });
});

describe('the example image', () => {
  it('is a PNG file of the asked size with a disc and a square', () => {
    const [width, height] = [30, 20], pixels = examplePixels(width, height), file = Buffer.from(toPngFile(pixels, width, height));
    expect([file.toString('latin1', 12, 16), file.readUInt32BE(16), file.readUInt32BE(20)]).toEqual(['IHDR', width, height]);
    const size = file.readUInt32BE(33);
    expect(file.toString('latin1', 37, 41)).toBe('IDAT');
    const rows = inflateSync(file.subarray(41, 41 + size)); // checks Adler-32, too
    expect(rows.length).toBe(height * (3 * width + 1));
    for (let y = 0; y < height; ++y) expect([...rows.subarray(y * (3 * width + 1), (y + 1) * (3 * width + 1))]).toEqual([0, ...pixels.subarray(3 * y * width, 3 * (y + 1) * width)]);
    expect(file.readUInt32BE(29)).toBe(0x15c91a93); // CRC-32 of the header
    const at = (x: number, y: number) => [...pixels.subarray(3 * (y * width + x), 3 * (y * width + x) + 3)];
    expect([at(0, 0), at(12, 9), at(20, 15)]).toEqual([[0xf3, 0xef, 0xe4], [0x2d, 0x5b, 0xbd], [0xe0, 0x8a, 0x2e]]);
  });
});
