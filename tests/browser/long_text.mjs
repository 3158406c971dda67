// A text of 32,768 tokens: tiles, memory and speed.
import { readFileSync, readdirSync } from 'node:fs';
import { finish, menu, open, saved, settle } from './page.mjs';
import { python, runNumpy } from './numpy.mjs';
import { axePath, check, launch, test } from './support.mjs';

/// Bytes that a process holds for itself: at most so far ('VmHWM'), or now ('RssAnon').
function memoryOf(pid, what) {
  return 1024 * Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`${what}:\\s+(\\d+)`))[1]);
}
/// The processes of Firefox that hold tabs.
function firefoxTabs() {
  const command = (pid) => { try { return readFileSync(`/proc/${pid}/cmdline`, 'utf8'); } catch { return ''; } }; // it may have ended
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && /firefox-esr.*-contentproc.*[\0 ]tab\0?$/s.test(command(pid)));
}

test('32,768 tokens: tiles, no matrix, little memory', async (context) => {
  if (!context.long) return 'skip';
  const others = firefoxTabs();
  if (context.name === 'firefox') context = { ...context, browser: await launch('firefox'), name: 'firefox with this page only' };
  const text = 'the film was good '.repeat(2000).slice(0, 32768);
  const page = await open(context, `/map?m=${context.long}`, { beforeLoad: (p) => p.addInitScript((t) => sessionStorage.setItem('heed.text', t), text) });
  const map = page.locator('canvas[data-level]');
  await map.waitFor();
  await page.waitForFunction(() => document.querySelector('canvas[data-level]').dataset.pending === '0');
  check((await map.getAttribute('aria-label')).includes('32768 rows'), 'all the tokens');
  check(Number(await map.getAttribute('data-level')) >= 5, 'the overview is coarse');
  const picture = await page.evaluate(() => {
    const entries = performance.getEntriesByType('resource');
    return entries.find((e) => e.name.endsWith('/tile')).responseEnd - entries.find((e) => e.name.endsWith('/traces')).responseEnd;
  });
  const pending = () => page.waitForFunction(() => document.querySelector('canvas[data-level]').dataset.pending === '0');
  for (let i = 0; i < 16; ++i) {
    await page.getByRole('button', { name: 'Zoom in' }).click();
    await pending();
  }
  check((await map.getAttribute('data-level')) === '0', 'zoomed in to single weights');
  // Each tile alone, as the server answers it: every level on the way down to single weights.
  const trace = page.requests.filter((url) => url.endsWith('/tile')).at(-1);
  const tiles = [];
  for (let level = 7; level >= 0; --level) {
    for (const [row, column] of [[2 ** (7 - level) - 1, 0], [2 ** (7 - level) - 1, 2 ** (7 - level) - 1]]) {
      const began = performance.now();
      const answer = await fetch(trace, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ kind: 'self', layer: 1, head: 1, what: 'weights', level, row, column }) });
      const tile = await answer.json();
      tiles.push(performance.now() - began);
      check(tile.values.shape.join() === '256,256', `level ${level}: ${JSON.stringify(tile).slice(0, 200)}`);
    }
  }
  await map.focus();
  const frames = await page.evaluate(async () => {
    const canvas = document.querySelector('canvas[data-level]');
    let count = 0;
    const began = performance.now();
    while (performance.now() - began < 2000) {
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key: count % 80 < 40 ? 'ArrowLeft' : 'ArrowUp', bubbles: true, cancelable: true }));
      await new Promise(requestAnimationFrame);
      ++count;
    }
    return count / 2;
  });
  await pending();
  const renderers = async () => (await (await context.browser.newBrowserCDPSession()).send('SystemInfo.getProcessInfo')).processInfo.filter((p) => p.type === 'renderer').map((p) => p.id);
  const processes = context.name === 'chromium' ? await renderers() : firefoxTabs().filter((pid) => !others.includes(pid));
  check(processes.length > 0, 'the process of the tab');
  const tab = Math.max(...processes.map((pid) => memoryOf(pid, 'RssAnon')));
  const server = context.server ? memoryOf(context.server, 'VmHWM') : 0;
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  const slowest = Math.max(...tiles), mega = (x) => Math.round(x / 1e6);
  console.log(`            first paint ${Math.round(paint)} ms, first picture ${Math.round(picture)} ms after the pass, ${tiles.length} tiles: median ${Math.round(tiles.sort((x, y) => x - y)[tiles.length >> 1])} ms, slowest ${Math.round(slowest)} ms; ${Math.round(frames)} frames per second while moving; tab ${mega(tab)} MB, server at most ${mega(server)} MB`);
  check(tab < 300e6, `the tab holds ${mega(tab)} MB`);
  check(server < 2e9, `the server held ${mega(server)} MB; the matrix of one head would be 4295`);
  if (process.env.HEED_MEASURE) check(paint < 1000 && picture < 1000 && slowest < 100 && frames >= 30, 'a bar was missed');
  await finish(context, page);
  if (context.name !== 'chromium') await context.browser.close();
}, { alone: true });

const drawn = (page, nth = 0) => page.waitForFunction((n) => document.querySelectorAll('canvas[data-level]')[n]?.dataset.pending === '0', nth);
const inTiles = 'the film was good '.repeat(34); // more tokens than a tile has cells

test('a map in tiles: what is seen is saved and read as a table, and one weight is chosen by keyboard', async (context) => {
  if (!context.long) return 'skip';
  const page = await open(context, `/map?m=${context.long}&l=1&h=1&x=${encodeURIComponent(inTiles)}`);
  const map = page.locator('canvas[data-level]');
  await drawn(page);
  const svg = readFileSync(await menu(page, 'SVG'), 'utf8'), rows = (await map.getAttribute('aria-label')).match(/(\d+) rows/)[1];
  check(/<image [^>]*href="data:image\/png;base64,/.test(svg) && svg.includes(`>${rows - 1}<`), 'the picture, with the positions at its edges');
  check((await page.getByLabel('Hide special tokens').count()) === 0, 'nothing is offered that does nothing here');
  await map.focus();
  for (let i = 0; i < 12; ++i) await page.keyboard.press('+');
  await drawn(page);
  check((await map.getAttribute('data-level')) === '0', 'single weights');
  const words = await page.locator('.bar .words').textContent(), [, from, to, value] = words.match(/\((\d+)\) → .*\((\d+)\): ([\d.e−]+)/);
  await page.keyboard.press('Control+c');
  await page.locator('.bar .words', { hasText: 'copied' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForFunction(([q, k]) => location.hash.includes(`q=${q}`) && location.hash.includes(`k=${k}`), [from, to]);
  const trace = page.requests.findLast((url) => url.endsWith('/tile'));
  const answer = await fetch(trace, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ kind: 'self', layer: 1, head: 1, what: 'weights', level: 0, row: from >> 8, column: to >> 8 }) });
  const { values } = await answer.json(), tile = new Float32Array(new Uint8Array(Buffer.from(values.data, 'base64')).buffer);
  const weight = tile[(from % 256) * values.shape[1] + (to % 256)];
  check(Math.abs(Number(value.replace('−', '-')) - weight) <= 1e-5, `“${words}”, the engine says ${weight}`);
  const cells = (line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map((m) => m[1]).slice(0, -1);
  const [head, ...lines] = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n').filter(Boolean).map(cells);
  const row = lines.find((r) => r[0].includes(`(${from})`)), column = head.findIndex((label) => label.includes(`(${to})`));
  check(row && column > 0 && Math.abs(Number(row[column]) - weight) <= 1e-7, `the table has the same: ${row?.[column]}`);
  await page.locator('figure').last().locator('summary', { hasText: 'Show as a table' }).click();
  await page.locator('figure').last().locator('table tbody tr').nth(5).waitFor();
  await page.evaluate(readFileSync(axePath, 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  check(violations.length === 0, `axe: ${violations.map((v) => v.id)}`);
  await finish(context, page);
});

test('the NumPy program of a text in tiles is that of the chosen row', async (context) => {
  if (!context.long || !python) return 'skip';
  const page = await open(context, `/steps?m=${context.long}&l=1&h=1&q=500&s=5&x=${encodeURIComponent(inTiles)}`);
  const file = await saved(page, () => page.locator('button.python').click());
  runNumpy(file);
  check(readFileSync(file, 'utf8').includes('query 500'), 'it says of which query it is');
  await finish(context, page);
});

test('of a row with thousands of keys the strongest are saved, and no zero in place of a weight', async (context) => {
  if (!context.long) return 'skip';
  const text = 'the film was good '.repeat(150);
  const page = await open(context, `/read?m=${context.long}`, { beforeLoad: (p) => p.addInitScript((t) => sessionStorage.setItem('heed.text', t), text) });
  const [head, row] = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n');
  const weights = row.split(',').slice(-64).map(Number);
  check(head.match(/\(\d+\)/g).length === 64 && weights.every((weight) => weight > 0), `64 weights: ${weights}`);
  await finish(context, page);
});

test('of two texts in tiles each side shows its own', async (context) => {
  if (!context.long) return 'skip';
  const page = await open(context, `/compare?m=${context.long}&x=${encodeURIComponent(inTiles)}`);
  const b = page.locator('.panel').nth(1);
  await b.getByRole('textbox', { name: 'Text of B' }).fill(inTiles.replaceAll('good', 'bad'));
  await b.getByRole('button', { name: 'Apply' }).click();
  await page.waitForFunction(() => /[?&]b=/.test(location.hash));
  await settle(page);
  await drawn(page);
  await drawn(page, 1);
  const size = async (side) => (await page.locator('canvas[data-level]').nth(side).getAttribute('aria-label')).match(/(\d+) rows/)[1];
  check((await size(0)) !== (await size(1)), 'the texts differ in length');
  const asked = new Set(page.requests.filter((url) => url.endsWith('/tile')).map((url) => url.match(/traces\/([^/]+)/)[1]));
  check(asked.size === 2, `tiles of the traces ${[...asked]}`);
  await finish(context, page);
});
