// What a person does on the page, in a browser, against a server that speaks the protocol.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { axePath, check, scratch, test } from './support.mjs';

const screens = ['read', 'map', 'steps', 'why', 'experiments', 'compare', 'train', 'lessons'];

async function open(context, path = '/read', options = {}) {
  const { beforeLoad, ...rest } = options;
  const page = await context.browser.newPage({ viewport: { width: 1280, height: 900 }, locale: 'en-US', reducedMotion: 'reduce', ...rest });
  page.setDefaultTimeout(60_000);
  page.problems = [];
  page.requests = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  page.on('console', (m) => { if (m.type() === 'error') page.problems.push(m.text()); });
  page.on('request', (r) => page.requests.push(r.url()));
  await beforeLoad?.(page);
  await page.goto(`${context.url}/#${path}`);
  await settle(page);
  return page;
}
async function settle(page) {
  await page.waitForFunction(() => !document.querySelector('.skeleton'));
  await page.waitForLoadState('networkidle');
}
async function finish(context, page) {
  const away = page.requests.filter((url) => !url.startsWith(context.url) && !/^(data|blob|file):/.test(url));
  check(away.length === 0, `requests left the machine: ${away}`);
  check(page.problems.length === 0, `the page reported: ${page.problems.join('\n')}`);
  await page.close();
}
async function saved(page, click) {
  const path = (name) => join(scratch, `${Date.now()}-${name}`);
  if (page.context().browser().browserType().name().search(/firefox/i) < 0) {
    const [download] = await Promise.all([page.waitForEvent('download'), click()]);
    const file = path(download.suggestedFilename());
    await download.saveAs(file);
    return file;
  }
  // WebDriver BiDi tells of no downloads: the link that would start one hands its content over instead.
  await page.evaluate(() => {
    globalThis.handed = new Promise((done) => {
      const create = URL.createObjectURL;
      let blob;
      URL.createObjectURL = (object) => create.call(URL, (blob = object));
      HTMLAnchorElement.prototype.click = async function () {
        const bytes = new Uint8Array(await blob.arrayBuffer());
        let text = '';
        for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
        done({ name: this.download, data: btoa(text) });
      };
    });
  });
  await click();
  const { name, data } = await page.evaluate(() => globalThis.handed);
  const file = path(name);
  writeFileSync(file, Buffer.from(data, 'base64'));
  return file;
}
const menu = async (page, item, nth = 0) => {
  await page.locator('figure details.export summary').nth(nth).click();
  return saved(page, () => page.locator('figure details.export[open] .menu button', { hasText: item }).first().click());
};

for (const language of ['en-US', 'ko-KR']) {
  for (const scheme of ['light', 'dark']) {
    test(`every screen without a violation of axe, ${language}, ${scheme}`, async (context) => {
      if (context.name !== 'chromium' && scheme === 'dark') return 'skip';
      const page = await open(context, '/read', { locale: language, colorScheme: scheme });
      await page.evaluate(readFileSync(axePath, 'utf8'));
      for (const screen of screens) {
        await page.evaluate((s) => (location.hash = `#/${s}?l=1&h=0&q=8&k=2`), screen);
        await settle(page);
        await page.waitForTimeout(150);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        check(violations.length === 0, `${screen}: ${violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(' | ')}`).join('\n')}`);
        check((await page.locator('html').getAttribute('lang')) === language.slice(0, 2), 'lang');
      }
      await finish(context, page);
    });
  }
}

test('the first screen answers what it looked at and what it predicts', async (context) => {
  const page = await open(context);
  check((await page.locator('.sentence strong').count()) >= 2, 'the words that were looked at');
  check((await page.locator('ol.bars li').count()) === 10, 'ten candidates');
  await finish(context, page);
});

test('Enter runs, but not while a syllable is composed', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}`);
  const box = page.locator('#text');
  let runs = 0;
  page.on('request', (r) => { if (r.url().endsWith('/heed/v1/traces')) ++runs; });
  await box.fill('고양이가 매트 위에');
  const press = (init, keyCode) => box.evaluate((element, [i, code]) => {
    const event = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...i });
    if (code) Object.defineProperty(event, 'keyCode', { value: code });
    element.dispatchEvent(event);
  }, [init, keyCode]);
  await press({ isComposing: true });
  await press({}, 229);
  await page.waitForTimeout(200);
  check(runs === 0, 'composition must not run the model');
  await box.press('Enter');
  await settle(page);
  check(runs === 1, `Enter runs once, not ${runs} times`);
  check((await page.locator('[role=toolbar] button').first().textContent()).includes('고양이가'), 'tokens of the new text');
  await finish(context, page);
});

test('byte fragments of a syllable stand together', async (context) => {
  if (!context.mock) return 'skip';
  const page = await open(context, `/read?m=tiny-gpt&x=${encodeURIComponent('학교에 뷁')}`);
  const joined = page.locator('[role=toolbar]').first().locator('button.joined');
  check((await joined.count()) === 2, 'two continuation pieces');
  check((await joined.first().textContent()) === '뷁(2/3)', 'and they say of what');
  await finish(context, page);
});

test('the language switch changes every text and stays', async (context) => {
  const page = await open(context);
  await page.getByRole('button', { name: '한국어' }).click();
  check((await page.locator('nav a').first().textContent()) === '읽기', 'Korean navigation');
  await page.reload();
  await settle(page);
  check((await page.locator('nav a').first().textContent()) === '읽기', 'and after a reload');
  await finish(context, page);
});

test('the selection lives in the URL and is shared by all screens', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}`);
  await page.locator('button.thumb').nth(5).click();
  const map = page.locator('canvas[role=application]').first();
  await map.focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction(() => /[?&]q=\d+/.test(location.hash) && /[?&]k=\d+/.test(location.hash) && /[?&]h=1/.test(location.hash));
  const url = page.url();
  await page.keyboard.press('Alt+4');
  await page.waitForFunction(() => location.hash.startsWith('#/why'));
  await settle(page);
  check(page.url().split('?')[1] === url.split('?')[1], 'the same selection on the next screen');
  await page.goBack();
  await page.waitForFunction(() => location.hash.startsWith('#/map'));
  await finish(context, page);
});

for (const family of ['decoder', 'encoder', 'seq2seq', 'vision']) {
  test(`all eleven steps, ${family}: the page's numbers are the engine's`, async (context) => {
    const model = context.models[family];
    if (!model) return 'skip';
    const page = await open(context, `/steps?m=${model}&l=1`);
    for (let step = 0; step < 11; ++step) {
      await page.locator('nav.list a').nth(step).click();
      await settle(page);
      const text = await page.locator('[data-testid=check]').textContent();
      check(text.includes('✓'), `step ${step + 1}: ${text}`);
      check((await page.locator('section.content .note').count()) === 0, `step ${step + 1} has a problem`);
    }
    await page.evaluate(() => (location.hash = location.hash.replace(/s=\d+/, 's=2')));
    await page.locator('section.content table').waitFor();
    const sum = Number((await page.locator('section.content tfoot .number').textContent()).replace('−', '-'));
    const terms = await page.locator('section.content tbody tr td:nth-child(4)').allTextContents();
    check(Math.abs(terms.reduce((s, x) => s + Number(x.replace('−', '-')), 0) - sum) < 0.0005 * terms.length + 1e-6, 'a score is the sum of its products');
    await finish(context, page);
  });

  test(`why, ${family}: the parts add up to the score`, async (context) => {
    const model = context.models[family];
    if (!model) return 'skip';
    const page = await open(context, `/why?m=${model}&l=1`);
    const numbers = await page.locator('[data-testid=why-sum] .number').evaluateAll((all) => all.map((n) => Number(n.title.split(' ')[0])));
    const [score, ...parts] = numbers;
    const total = parts.reduce((x, y) => x + y, 0);
    check(Math.abs(total - score) <= 1e-5 * Math.max(1, Math.abs(score)), `${score} is not ${total}`);
    const remainder = Math.abs(parts[parts.length - 1]);
    check(remainder <= 1e-5 * Math.max(1, Math.abs(score)), `remainder ${remainder}`);
    await finish(context, page);
  });
}

test('any tensor within three clicks', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}`);
  await page.locator('details.panel summary').first().click();
  await page.locator('details.panel select').selectOption({ index: 3 });
  await page.locator('details.panel figure canvas').waitFor();
  await finish(context, page);
});

test('temperature and the missing √d_k change the distributions', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1&s=10`);
  const top = () => page.locator('ol.bars .value').first().textContent();
  const before = await top();
  await page.getByRole('slider').fill('3');
  check((await top()) !== before, 'temperature');
  await page.locator('nav.list a').nth(3).click();
  await settle(page);
  const text = () => page.locator('section.content p.num').textContent();
  const scaled = await text();
  await page.getByRole('slider').fill('1');
  check((await text()) !== scaled, 'saturation');
  await finish(context, page);
});

test('an ablated head changes the prediction', async (context) => {
  const page = await open(context, `/experiments?m=${context.models.decoder}&l=1&h=0`);
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('[data-testid=verdict]').waitFor();
  if (context.mock) check((await page.locator('[data-testid=verdict]').textContent()).includes('changes from “sat”'), 'the induction head carries the answer');
  await page.getByRole('button', { name: 'Undo all' }).click();
  for (const [kind, name] of [['Connection', 'no longer sees'], ['Position', 'replaced'], ['Mask', 'Causal mask removed']]) {
    await page.locator('.segments label', { hasText: kind }).click();
    await page.getByRole('button', { name: 'Apply' }).first().click();
    await page.locator('ol.did li', { hasText: name }).waitFor();
    await page.locator('[data-testid=verdict]').waitFor();
  }
  await page.locator('.segments label', { hasText: 'Patch' }).click();
  const donor = page.locator('label.field input').first();
  await donor.fill((await donor.inputValue()).replace('sat', 'ran'));
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('ol.did li', { hasText: 'taken from the other text' }).waitFor();
  await page.locator('form input').first().fill('dog');
  await page.getByRole('button', { name: 'Swap' }).click();
  await page.waitForFunction(() => document.querySelectorAll('ul.pairs').length === 2);
  await finish(context, page);
});

test('activation patching paints a map', async (context) => {
  const page = await open(context, `/experiments?m=${context.models.decoder}`);
  const field = page.locator('label.field input');
  const text = await field.inputValue();
  await field.fill(text.replace('sat', 'ran'));
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('figcaption', { hasText: '1: the original answer is back' }).waitFor();
  await finish(context, page);
});

test('two heads are compared, and their difference', async (context) => {
  const page = await open(context, `/compare?m=${context.models.decoder}`);
  check((await page.locator('dl.figures .number').count()) === 3, 'three figures of the difference');
  await page.locator('.panel').nth(1).locator('select').last().selectOption('0');
  await page.waitForFunction(() => document.querySelector('dl.figures .number')?.textContent === '1.000');
  await finish(context, page);
});

test('a run is followed, with a scrubber over its heads', async (context) => {
  if (!context.run) return 'skip';
  const page = await open(context, `/train?r=${context.run}`);
  check((await page.locator('.uplot').count()) >= 2, 'curves');
  await page.getByRole('slider').fill('0');
  check((await page.locator('.scrub strong').textContent()).includes('step 0'), 'back to the first snapshot');
  await finish(context, page);
});

test('the lessons, each with a question to answer first', async (context) => {
  const page = await open(context, '/lessons');
  check((await page.locator('nav.list a').count()) >= 15, 'fifteen lessons and more');
  await page.locator('aside .options').first().locator('button').nth(1).click();
  check((await page.locator('aside .right').count()) === 1, 'the answer is shown');
  const live = page.locator('aside section').nth(1);
  await live.locator('.options button').first().click();
  await live.locator('ol.bars').waitFor();
  await finish(context, page);
});

test('generation streams tokens with their attention', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}`);
  await page.getByRole('spinbutton').fill('4');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.made').length === 4);
  check((await page.locator('section', { hasText: 'Let it write' }).locator('[role=toolbar] button').count()) >= 5, 'the tokens that were looked at');
  await finish(context, page);
});

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

test('the NumPy program reproduces the weights', async (context) => {
  const python = [process.env.HEED_PYTHON, 'python3'].filter(Boolean).find((p) => {
    try {
      execFileSync(p, ['-c', 'import numpy'], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
  if (!python) return 'skip';
  for (const model of Object.values(context.models)) {
    const page = await open(context, `/map?m=${model}`);
    const output = execFileSync(python, [await menu(page, 'NumPy')], { encoding: 'utf8' });
    const errors = [...output.matchAll(/largest difference.*?: ([\d.e-]+)/g)].map((m) => Number(m[1]));
    check(errors.length === 2 && errors[0] <= 1e-6 && errors[1] <= 1e-5, output);
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
  for (const model of Object.values(context.models)) {
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

test('a captioner looks at a picture and writes', async (context) => {
  if (!context.models.captioner) return 'skip';
  const page = await open(context, `/read?m=${context.models.captioner}`);
  check((await page.locator('main img, main canvas, main svg image').count()) >= 1, 'the picture');
  await page.getByRole('spinbutton', { name: 'Tokens' }).fill('3');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByText(/tokens in/).waitFor();
  await finish(context, page);
});

test('beams are a tree', async (context) => {
  if (!context.models.seq2seq) return 'skip';
  const page = await open(context, `/read?m=${context.models.seq2seq}`);
  await page.getByRole('spinbutton', { name: 'Beams' }).fill('3');
  await page.getByRole('spinbutton', { name: 'Tokens' }).fill('5');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.locator('svg[role=img] rect').first().waitFor();
  await page.getByText(/tokens in/).waitFor();
  check((await page.locator('svg[role=img] g').count()) >= 6, 'the kept hypotheses');
  check((await page.locator('svg[role=img] path.on').count()) >= 1, "the winner's way");
  await finish(context, page);
});

test('every screen fits a phone of 390 px and 200 % zoom', async (context) => {
  for (const viewport of [{ width: 390, height: 844 }, { width: 640, height: 450 }]) {
    const page = await open(context, '/read', { viewport });
    for (const screen of screens) {
      await page.evaluate((s) => (location.hash = `#/${s}?l=1&h=0&q=8&k=2`), screen);
      await settle(page);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      check(width <= viewport.width, `${screen} is ${width} px wide at ${viewport.width}`);
    }
    await finish(context, page);
  }
});

test('every screen can be reached by keyboard alone', async (context) => {
  const page = await open(context);
  for (let i = 0; i < screens.length; ++i) {
    await page.keyboard.press(`Alt+${i + 1}`);
    await page.waitForFunction((s) => location.hash.startsWith(`#/${s}`), screens[i]);
    await settle(page);
  }
  await finish(context, page);
});

test('every screen can be used by keyboard alone, and shows where the focus is', async (context) => {
  for (const screen of screens) {
    const page = await open(context, `/${screen}?l=1&h=0`);
    await page.locator('main').focus();
    const reached = [];
    for (let n = 0; n < 80; ++n) {
      await page.keyboard.press('Tab');
      const seen = await page.evaluate(() => {
        const e = document.activeElement;
        if (!e || e === document.body || !e.closest('main') || e.dataset.reached) return ''; // once round
        e.dataset.reached = 'yes';
        const label = e.closest('label');
        const ring = getComputedStyle(e).outlineStyle !== 'none' || (label && getComputedStyle(label).outlineStyle !== 'none');
        return `${e.tagName}${ring ? '' : ' without a ring'}`;
      });
      if (!seen) break;
      reached.push(seen);
    }
    check(reached.length >= 5, `${screen}: only ${reached} can be focused`);
    check(!reached.some((r) => r.includes('without')), `${screen}: ${reached}`);
    await finish(context, page);
  }
});

test('32,768 tokens: tiles, no matrix, little memory', async (context) => {
  if (context.name !== 'chromium' || !context.long) return 'skip';
  // The mock's tokens are words; the model that engine.sh trains reads letters.
  const words = ['the', 'cat', 'sat', 'on', 'a', 'mat', 'dog', 'ran'];
  const text = context.mock ? Array.from({ length: 32768 }, (_, i) => words[(i * 7 + (i >> 3)) % 8]).join(' ') : 'the film was good '.repeat(2000).slice(0, 32768);
  const page = await open(context, `/map?m=${context.long}`, { beforeLoad: (p) => p.addInitScript((t) => sessionStorage.setItem('heed.text', t), text) });
  const map = page.locator('canvas[data-level]');
  await map.waitFor();
  await page.waitForFunction(() => document.querySelector('canvas[data-level]').dataset.pending === '0');
  check((await map.getAttribute('data-level')) !== '0', 'the overview is coarse');
  for (let i = 0; i < 16; ++i) {
    await page.getByRole('button', { name: 'Zoom in' }).click();
    if (i % 4 === 3) await page.waitForFunction(() => document.querySelector('canvas[data-level]').dataset.pending === '0');
  }
  check((await map.getAttribute('data-level')) === '0', 'zoomed in to single weights');
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  check(heap < 300e6, `the tab holds ${Math.round(heap / 1e6)} MB`);
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  await map.focus();
  const frames = await page.evaluate(async () => {
    const canvas = document.querySelector('canvas[data-level]');
    let count = 0;
    const began = performance.now();
    while (performance.now() - began < 1000) {
      canvas.dispatchEvent(new KeyboardEvent('keydown', { key: count % 40 < 20 ? 'ArrowLeft' : 'ArrowRight', bubbles: true, cancelable: true }));
      await new Promise(requestAnimationFrame);
      ++count;
    }
    return count;
  });
  const tiles = await page.evaluate(() => performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/tile')).map((e) => e.duration).sort((x, y) => x - y));
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
  console.log(`            ${frames} frames per second while moving, heap ${Math.round(heap / 1e6)} MB, ${tiles.length} tiles: median ${Math.round(tiles[tiles.length >> 1])} ms, slowest ${Math.round(tiles[tiles.length - 1])} ms, first paint ${Math.round(paint)} ms`);
  await finish(context, page);
});

test('an answer that fails is said in place', async (context) => {
  const page = await open(context);
  await page.route('**/traces/*/tile', (route) => route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify({ error: { message: 'this cannot be shown', code: 'unsupported' } }) }));
  await page.evaluate(() => (location.hash = '#/map'));
  await page.locator('.note', { hasText: 'this cannot be shown' }).waitFor();
  page.problems = [];
  await finish(context, page);
});
