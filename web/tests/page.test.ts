import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { Client, canonical, parseEvent, requestKey } from '../src/lib/api/client';
import { encode, numbers, tensor } from '../src/lib/api/tensor';
import type { HeadData, Tile, Trace } from '../src/lib/api/types';
import { colorAt, inkOn, shade, shadeSigned } from '../src/lib/draw/color';
import { toCsv, toNpy } from '../src/lib/draw/export';
import { toSvg } from '../src/lib/draw/scene';
import { en } from '../src/lib/i18n/en';
import { ko } from '../src/lib/i18n/ko';
import { readNpy, readReference } from '../src/lib/draw/reference';
import { waveFile } from '../src/lib/draw/wave';
import { allWeights, headNumbers, keptBySampling, largestDifference, sortedProbabilities, topProbabilities } from '../src/lib/math/attention';
import { num, percent } from '../src/lib/ui/format';
import { render, titleOf } from '../src/lessons/markdown';
import { lessonOf, lessons } from '../src/lessons/questions';
import { MockServer } from '../mock/routes';

const root = new URL('../../', import.meta.url);
const holes = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();

describe('catalogues', () => {
  it('have the same keys', () => expect(Object.keys(ko).sort()).toEqual(Object.keys(en).sort()));
  it.each(Object.keys(en))('%s has the same placeholders and is not empty', (key) => {
    const k = key as keyof typeof en;
    expect(holes(ko[k])).toEqual(holes(en[k]));
    expect(en[k].trim()).not.toBe('');
    expect(ko[k].trim()).not.toBe('');
  });
  it('have every key that the sources use, and no other', () => {
    const sources = (readdirSync(new URL('web/src/', root), { recursive: true }) as string[]).filter((f) => /\.(svelte|ts)$/.test(f) && !f.includes('i18n'));
    const text = sources.map((f) => readFileSync(new URL(`web/src/${f}`, root), 'utf8')).join('\n');
    const used = new Set([...text.matchAll(/\bt\('([\w.]+)'/g)].map((m) => m[1]));
    for (const key of used) expect(Object.keys(en), key).toContain(key);
    const families = [...text.matchAll(/`([a-z]+)\.\$\{/g)].map((m) => m[1]);
    const unused = Object.keys(en).filter((key) => !text.includes(`'${key}'`) && !text.includes(`text="${key}"`) && !families.includes(key.split('.')[0]));
    expect(unused).toEqual([]);
  });
  it('speak to Korean readers in one polite level', () => {
    for (const [key, text] of Object.entries(ko)) {
      if (key.startsWith('example.') || !/[가-힣]\.$/.test(text)) continue;
      expect(text, key).toMatch(/(니다|십시오|까요\?|보기|이동|숨기기|열|비트)\.$/);
    }
  });
});

describe('requests', () => {
  it('have one name whatever the order of their fields', () => {
    expect(canonical({ b: [1, { d: 'x', c: null }], a: undefined, aa: -0.5 })).toBe('{"aa":-0.5,"b":[1,{"c":null,"d":"x"}]}');
    expect(requestKey('GET', '/heed/v1/models')).toBe('GET /heed/v1/models');
  });
  it('are answered from the data of an offline page, and only from there', async () => {
    const body = { kind: 'self', layer: 0 };
    const client = new Client({ version: 1, start: {} as never, responses: { [requestKey('POST', '/heed/v1/traces/t/heads', body)]: { heads: [] } } });
    expect(await client.trace('t', 'heads', { layer: 0, kind: 'self' })).toEqual({ heads: [] });
    await expect(client.trace('t', 'heads', { layer: 1, kind: 'self' })).rejects.toMatchObject({ code: 'not_in_file' });
  });
  it('read server-sent events', () => {
    expect(parseEvent('event: token\ndata: {"a":\ndata: 1}')).toEqual({ event: 'token', data: '{"a":\n1}' });
    expect(parseEvent(': comment')).toBeNull();
  });
});

describe('tensors', () => {
  it('keep −∞ and NaN', () => {
    const values = new Float32Array([1.5, -Infinity, NaN, 0]);
    expect(tensor(encode(values, [2, 2])).data).toEqual(values);
  });
  it('refuse data that does not fit the shape', () => {
    expect(() => tensor({ ...encode(new Float32Array(3), [3]), shape: [4] })).toThrow();
  });
});

describe('colours', () => {
  it('uniform attention looks uniform and small weights are visible', () => {
    expect(colorAt('light', shade(1 / 8, 'absolute'))).toBe(colorAt('light', shade(1 / 8, 'absolute')));
    expect(shade(0.01, 'absolute')).toBeGreaterThan(0.05);
    expect(shade(0, 'absolute')).toBe(0);
    expect(shade(NaN, 'log')).toBe(0);
    expect(shadeSigned(0, 1)).toBe(0.5);
    expect(shadeSigned(-2, 1)).toBe(0);
  });
  it('text on every colour has a contrast of 4.5 : 1', () => {
    const luminance = (rgb: number[]) => rgb.map((v) => v / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)).reduce((s, x, i) => s + x * [0.2126, 0.7152, 0.0722][i], 0);
    for (const theme of ['light', 'dark'] as const) {
      for (const signed of [false, true]) {
        for (let i = 0; i <= 64; ++i) {
          const ground = luminance(colorAt(theme, i / 64, signed).match(/\d+/g)!.map(Number));
          const ink = inkOn(theme, i / 64, signed) === '#fff' ? 1 : 0;
          expect((Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05)).toBeGreaterThanOrEqual(4.5);
        }
      }
    }
  });
});

describe('exports', () => {
  it('CSV quotes, and keeps formulas from running', () => {
    const csv = toCsv({ values: [0.5, 0.5], shape: [1, 2], rowLabels: ['a,"b"'], columnLabels: ['=1+1', '고양이'] });
    expect(csv).toBe(",'=1+1,고양이\r\n\"a,\"\"b\"\"\",0.5,0.5\r\n");
  });
  it('.npy has NumPy’s header', () => {
    const bytes = toNpy([1, 2, 3, 4, 5, 6], [2, 3]);
    const view = new DataView(bytes.buffer);
    const header = new TextDecoder().decode(bytes.subarray(10, 10 + view.getUint16(8, true)));
    expect(header).toContain("'shape': (2, 3)");
    expect(header.endsWith('\n')).toBe(true);
    expect((10 + header.length) % 64).toBe(0);
    expect(view.getFloat32(10 + header.length + 20, true)).toBe(6);
  });
  it('SVG escapes labels', () => {
    expect(toSvg({ width: 1, height: 1, shapes: [{ type: 'text', x: 0, y: 0, text: '<b>&', size: 10, fill: '#000' }] }, 'a<b')).toContain('&lt;b&gt;&amp;');
  });
});

describe('the formula on the page', () => {
  const mock = new MockServer();
  it.each(mock.models.map((m) => m.info.id))('%s: equals the engine to 1e-6 in every head', (id) => {
    const trace = mock.handle('POST', '/heed/v1/traces', { model: id, text: 'the cat sat on a [MASK] .', image: 'abcdef' }) as Trace;
    for (const a of trace.attentions) {
      for (let layer = 0; layer < a.layers; ++layer) {
        for (let head = 0; head < a.heads; ++head) {
          const at = { kind: a.kind, layer, head };
          const h = headNumbers(mock.handle('POST', `/heed/v1/traces/${trace.id}/head`, { ...at, queries: [0, a.queries], keys: [0, a.keys] }) as HeadData, a.keys);
          const tile = mock.handle('POST', `/heed/v1/traces/${trace.id}/tile`, { ...at, what: 'weights', level: 0, row: 0, column: 0 }) as Tile;
          expect(largestDifference(allWeights(h), numbers(tile.values))).toBeLessThanOrEqual(1e-6);
        }
      }
    }
  });
  it('temperature keeps the order and sums below 1', () => {
    const top = topProbabilities([1, 3, 2, 3], 0.5, 3);
    expect(top.map((x) => x.id)).toEqual([1, 3, 2]);
    expect(largestDifference([NaN], [0])).toBeNaN();
    const sorted = sortedProbabilities([1, 3, 2, 3], 0.5);
    expect(sorted.reduce((x, y) => x + y, 0)).toBeCloseTo(1, 12);
    expect(sorted[0]).toBeCloseTo(top[0].probability, 12);
    expect(keptBySampling([0.5, 0.3, 0.2], 2, 1)).toEqual({ count: 2, sum: 0.8 });
    expect(keptBySampling([0.5, 0.3, 0.2], 0, 0.6)).toEqual({ count: 2, sum: 0.8 });
    expect(keptBySampling([0.5, 0.3, 0.2], 0, 0.01).count).toBe(1);
  });
  it('are compared with what other programs wrote', () => {
    const maps = Float32Array.from({ length: 2 * 3 * 4 }, (_, i) => i / 7);
    expect(readNpy(toNpy(maps, [2, 3, 4]))).toEqual({ shape: [2, 3, 4], values: Float64Array.from(maps) });
    expect(readNpy(new TextEncoder().encode('no array, only text'))).toBeNull();
    const reference = readReference(toNpy(maps, [2, 3, 4]), 5, 2)!;
    expect(Array.from(reference.weights(4, 1, 3, 4)!)).toEqual(Array.from(maps.subarray(12)));
    expect(reference.weights(0, 0, 4, 3)).toBeNull();
    const inspect = readReference(new TextEncoder().encode(JSON.stringify({ maps: [{ layer: 1, head: 0, rows: 1, columns: 2, pooled: false, values: [[0.25, 0.75]] }] })), 2, 1)!;
    expect(inspect.weights(1, 0, 1, 2)).toEqual([0.25, 0.75]);
    expect(inspect.weights(0, 0, 1, 2)).toBeNull();
    expect(readReference(new TextEncoder().encode('{"maps": 3}'), 2, 1)).toBeNull();
  });
  it('of a recording become a WAV file', () => {
    const file = waveFile(Float32Array.of(0, 0.5, -1), 16000);
    expect(new TextDecoder().decode(file.subarray(0, 4))).toBe('RIFF');
    expect([...new Int16Array(file.buffer, 44)]).toEqual([0, 16384, -32768]);
  });
});

describe('numbers', () => {
  it('are written for people', () => {
    expect(num(-Infinity)).toBe('−∞');
    expect(num(-0.5)).toBe('−0.500');
    expect(num(1.2e-7)).toBe('1.2e−7');
    expect(percent(1)).toBe('100 %');
    expect(percent(0.00001)).toBe('< 0.01 %');
  });
});

describe('lessons', () => {
  for (const language of ['en', 'ko']) {
    const folder = new URL(`docs/tutorial/${language}/`, root);
    const files = readdirSync(folder).filter((f) => /^\d/.test(f)).sort();
    it(`${language}: every question has its lesson, and every lesson its question`, () => {
      const titles = files.map((file) => titleOf(readFileSync(new URL(file, folder), 'utf8')));
      expect(titles.filter(lessonOf).length).toBe(lessons.length);
      expect(titles.every(lessonOf)).toBe(true);
    });
    it.each(files)(`${language}/%s is rendered without leftovers`, (file) => {
      const text = readFileSync(new URL(file, folder), 'utf8');
      expect(titleOf(text)).toMatch(/^\d+\. /);
      const html = render(text);
      expect(html).not.toMatch(/```|!\[|\*\*|<script/);
    });
  }
  it('answers are among the options, in both languages', () => {
    for (const { questions } of lessons) {
      expect(questions.ko.options.length).toBe(questions.en.options.length);
      expect(questions.ko.answer).toBe(questions.en.answer);
      expect(questions.en.answer).toBeLessThan(questions.en.options.length);
    }
  });
  it('text is escaped', () => expect(render('a <img src=x onerror=alert(1)> `<b>`')).toBe('<p>a &lt;img src=x onerror=alert(1)&gt; <code>&lt;b&gt;</code></p>'));
});

describe('the built page', () => {
  const packed = readFileSync(new URL('web/dist/explorer.html.gz', root));
  const page = gunzipSync(packed).toString('utf8');
  it('is at most 250 kB', () => expect(packed.length).toBeLessThanOrEqual(250_000));
  it('refers to nothing outside', () => {
    expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    expect(page.split('<!--heed-data-->').length).toBe(2);
  });
  it('is what the sources give', () => {
    execFileSync(process.execPath, [fileURLToPath(new URL('web/scripts/verify.mjs', root))], { stdio: 'pipe' });
  });
});
