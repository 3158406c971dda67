// What is saved from the page: pictures, numbers, programs and the page itself; and that its numbers are the program's.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { finish, menu, open, saved, settle } from './page.mjs';
import { python, runNumpy } from './numpy.mjs';
import { check, scratch, test } from './support.mjs';

test('SVG, PNG, CSV and .npy are saved and hold the numbers', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}`);
  const svg = readFileSync(await menu(page, 'SVG'), 'utf8');
  check(svg.startsWith('<svg') && svg.includes('<rect') && svg.includes('</svg>'), 'SVG');
  const png = readFileSync(await menu(page, 'PNG'));
  check(png.subarray(1, 4).toString() === 'PNG', 'PNG');
  const csv = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n').filter(Boolean);
  for (const line of csv.slice(1)) {
    const row = line.match(/(?:"(?:[^"]|"")*"|[^,]*)(?:,|$)/g).slice(1).map((x) => parseFloat(x)).filter((x) => !Number.isNaN(x));
    check(Math.abs(row.reduce((x, y) => x + y, 0) - 1) < 1e-5, `a row of the CSV sums to 1: ${line}`);
  }
  const npy = readFileSync(await menu(page, '.npy'));
  check(npy.subarray(1, 6).toString() === 'NUMPY' && (npy.readUInt16LE(8) + 10) % 64 === 0, '.npy header');
  await finish(context, page);
});

test('all heads are saved as a picture, and what is measured of them as a table', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}`);
  const heads = await page.locator('section.heads button.thumb').count();
  const svg = readFileSync(await menu(page, 'SVG', 0), 'utf8');
  check(svg.match(/<image /g).length === heads, `${heads} heads`);
  const [head, ...rows] = readFileSync(await menu(page, 'CSV', 0), 'utf8').split('\r\n').filter(Boolean).map((line) => line.split(','));
  check(rows.length === heads && head[1] === 'Entropy', `${rows.length} rows, first ${head}`);
  await page.locator('section.heads button.thumb').nth(1).click();
  const said = await page.locator('dl.figures .number').evaluateAll((all) => all.map((n) => Number(n.title.split(' ')[0])));
  const row = rows.find(([name]) => name === '0.1').slice(1).map(Number);
  check(row.length === said.length && row.every((value, i) => Math.abs(value - said[i]) <= 1e-12), `${row} and ${said}`);
  await finish(context, page);
});

test('the NumPy program reproduces the weights', async (context) => {
  if (!python) return 'skip';
  for (const [family, model] of Object.entries(context.models)) {
    if (family === 'speech') continue; // waits for a recording
    const page = await open(context, `/map?m=${model}`);
    runNumpy(await menu(page, 'NumPy'));
    await finish(context, page);
  }
});

/// Opens a page that holds its own data, and looks at every screen that needs no engine.
async function offline(context, file) {
  const again = await context.browser.newPage({ locale: 'en-US', offline: true });
  const asked = [];
  const problems = [];
  again.on('request', (r) => asked.push(r.url()));
  again.on('pageerror', (e) => problems.push(String(e)));
  await again.goto(`file://${file}`);
  await settle(again);
  check((await again.locator('ol.bars li').count()) > 2, 'the prediction');
  for (const screen of ['map', 'steps', 'why', 'lessons']) {
    await again.locator(`nav a[href="#/${screen}"]`).first().click();
    await settle(again);
    check((await again.locator('main .note').count()) === 0, `${screen}: ${await again.locator('main .note').allTextContents()}`);
  }
  await again.locator('nav a[href="#/map"]').click();
  await again.locator('button.thumb').nth(3).click();
  await settle(again);
  check((await again.locator('main .note').count()) === 0, 'another head');
  check(asked.every((url) => url.startsWith('file://') || url.startsWith('data:')), `asked for ${asked}`);
  check(problems.length === 0, problems.join('\n'));
  await again.close();
}

test('the page saved offline keeps its interaction, with the network off', async (context) => {
  for (const model of ['decoder', 'seq2seq', 'vision', 'reader'].map((family) => context.models[family]).filter(Boolean)) {
    const page = await open(context, `/map?m=${model}&l=1&h=0`);
    const file = await saved(page, () => page.getByRole('button', { name: 'Save page' }).click());
    await finish(context, page);
    await offline(context, file);
  }
});

// What a person types for each family, so that the page and the program read the same.
const inspected = { decoder: ['--text', 'the film was good 3'], encoder: ['--text', 'the film was [MASK] 3'], seq2seq: ['--text', 'a3 b3', '--target', 'b3'] };

test('weights on the page are those of heed inspect --json', async (context) => {
  if (!context.heed) return 'skip';
  let worst = 0;
  for (const [family, options] of Object.entries(inspected)) {
    const model = context.models[family];
    if (!model) continue;
    const target = options[3] ? `&y=${encodeURIComponent(options[3])}` : '';
    for (const [layer, head] of [[0, 0], [1, 2]]) {
      const page = await open(context, `/map?m=${model}&l=${layer}&h=${head}&x=${encodeURIComponent(options[1])}${target}`);
      const csv = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n').filter(Boolean).slice(1);
      const shown = csv.map((line) => line.match(/(?:"(?:[^"]|"")*"|[^,]*)(?:,|$)/g).slice(1).map((x) => parseFloat(x)).filter((x) => !Number.isNaN(x)));
      const [map] = JSON.parse(execFileSync(context.heed, ['inspect', join(context.folder, model), ...options, '--layer', layer, '--head', head, '--json', '--quiet'], { encoding: 'utf8' })).maps;
      check(shown.length === map.rows && shown[0].length === map.columns, `${family}: ${shown.length} x ${shown[0].length} against ${map.rows} x ${map.columns}`);
      map.values.flat().forEach((value, i) => (worst = Math.max(worst, Math.abs(value - shown.flat()[i]))));
      await finish(context, page);
    }
  }
  // And on the page itself: the program's output is chosen as a file, and the largest difference of all heads is shown.
  const page = await open(context, `/map?m=${context.models.decoder}&x=${encodeURIComponent(inspected.decoder[1])}`);
  const file = join(scratch, 'inspect.json');
  writeFileSync(file, execFileSync(context.heed, ['inspect', join(context.folder, context.models.decoder), ...inspected.decoder, '--json', '--quiet']));
  await page.getByText('Compare with another program').click();
  await page.locator('main input[type=file]').setInputFiles(file);
  await page.locator('[data-testid=reference]', { hasText: '12 heads' }).waitFor();
  const onPage = Number((await page.locator('[data-testid=reference] strong').textContent()).replaceAll('−', '-'));
  check(onPage <= 1e-6, `the page says ${onPage}`);
  await finish(context, page);
  console.log(`            largest difference between the page and heed inspect --json: ${worst.toExponential(1)}`);
  check(worst <= 1e-6, `the largest difference is ${worst}`);
});

test('the file that heed inspect writes opens with the network off', async (context) => {
  if (!context.heed) return 'skip';
  for (const [family, options] of Object.entries(inspected)) {
    if (!context.models[family]) continue;
    const file = join(scratch, `inspect-${family}.html`);
    execFileSync(context.heed, ['inspect', join(context.folder, context.models[family]), ...options, '--format', 'html', '-o', file, '--quiet']);
    await offline(context, file);
  }
});
