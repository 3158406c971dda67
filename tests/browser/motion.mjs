// What moves, what must not, and the picture of the whole model.
import { readFileSync } from 'node:fs';
import { finish, menu, open, settle } from './page.mjs';
import { axePath, check, test } from './support.mjs';

const stage = 'canvas[role=img][aria-label]';
/// Writes down whenever the picture of a step begins to move.
const watch = (page) => page.evaluate(() => {
  globalThis.moves = [];
  const look = () => document.querySelectorAll('[data-moving]').forEach((e) => { if (!e.seen) { e.seen = true; globalThis.moves.push(e.getAttribute('aria-label')); } });
  new MutationObserver((all) => {
    for (const m of all) if (m.target.nodeType === 1 && !m.target.hasAttribute?.('data-moving')) m.target.seen = false;
    look();
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-moving'] });
});
const moves = (page) => page.evaluate(() => globalThis.moves.length);
const stands = (page) => page.waitForFunction(() => !document.querySelector('[data-moving]'), undefined, { timeout: 30_000 });

for (const family of ['decoder', 'encoder', 'seq2seq', 'vision']) {
  test(`values run from step to step, by keyboard, and come to rest, ${family}`, async (context) => {
    if (!context.models[family]) return 'skip';
    const page = await open(context, `/steps?m=${context.models[family]}&l=1`, { reducedMotion: 'no-preference' });
    await watch(page);
    check((await page.locator('[data-moving]').count()) === 0, 'nothing moves when the page opens');
    const pictures = new Set();
    for (let step = 1; step < 11; ++step) {
      await page.keyboard.press(']');
      await page.waitForFunction((n) => globalThis.moves.length === n, step);
      await stands(page);
      pictures.add(await page.locator(`section.content ${stage}`).first().getAttribute('aria-label'));
      check((await page.locator('section.content .note').count()) === 0, `step ${step + 1} has a problem`);
    }
    check(pictures.size === 10, `each step says what moves in it: ${pictures.size}`);
    // The data of another word arrives: its picture is there at once.
    const before = await moves(page);
    const tokens = page.locator('main [role=toolbar] button, main .frame button');
    await tokens.nth((await tokens.count()) > 2 ? 1 : 0).click();
    await settle(page);
    check((await moves(page)) === before, 'nothing moves when data arrives');
    // Once more, by the button and by keyboard alone.
    await page.getByRole('button', { name: 'Play again' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction((n) => globalThis.moves.length === n, before + 1);
    await stands(page);
    await finish(context, page);
  }, { alone: 'firefox' }); // a window without the focus loses keys there
}

test('weights × values: frames differ while it runs, and the last one is the picture without motion', async (context) => {
  const path = `/steps?m=${context.models.decoder}&l=1&s=5`;
  const page = await open(context, path, { reducedMotion: 'no-preference' });
  await page.keyboard.press(']');
  const pixels = (p) => p.locator(`section.content ${stage}`).first().evaluate((c) => c.toDataURL());
  await page.locator('[data-moving]').first().waitFor();
  const running = new Set();
  for (let i = 0; i < 5 && (await page.locator('[data-moving]').count()); ++i) {
    running.add(await pixels(page));
    await page.waitForTimeout(120);
  }
  check(running.size >= 2, `${running.size} different frames`);
  await stands(page);
  const last = await pixels(page);
  check([...running].some((frame) => frame !== last), 'frames that are not the end');
  const still = await open(context, path.replace('s=5', 's=6'));
  check((await pixels(still)) === last, 'the end is the picture that reduced motion shows');
  await finish(context, still);
  await finish(context, page);
});

test('nothing moves where reduced motion is asked for', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1`, { reducedMotion: 'reduce' });
  await watch(page);
  const pictures = new Set();
  for (let step = 1; step < 11; ++step) {
    await page.keyboard.press(']');
    await settle(page);
    pictures.add(await page.locator(`section.content ${stage}`).first().evaluate((c) => c.toDataURL()));
  }
  check(pictures.size === 10, `${pictures.size} pictures of 10 steps`);
  check((await moves(page)) === 0, `${await moves(page)} motions`);
  check((await page.getByRole('button', { name: 'Play again' }).count()) === 0, 'there is nothing to play');
  check((await page.locator('section.content p.formula').textContent()).includes('softmax'), 'all steps were gone through');
  check((await page.evaluate(() => document.getAnimations().length)) === 0, 'no animation of the style sheet either');
  await finish(context, page);
});

/// Presses a key on the whole model and gives what is said of the block when the page has handled the key and drawn: Firefox
/// hands a key to the page a little later, and at the edge nothing changes, so neither a moment nor a change is waited for.
async function pressed(page, key, where = '.model .words') {
  await page.evaluate(() => {
    globalThis.handled = false;
    const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.handled = true)));
    addEventListener('keyup', drawn, { once: true, capture: true });
  });
  await page.keyboard.press(key);
  await page.waitForFunction(() => globalThis.handled);
  return page.evaluate((selector) => document.querySelector(selector)?.textContent ?? '', where);
}
for (const family of ['decoder', 'encoder', 'seq2seq', 'vision', 'captioner', 'reader']) {
  test(`the whole model, ${family}: a block by keyboard leads to its step, a head is chosen by a click`, async (context) => {
    const model = context.models[family];
    if (!model) return 'skip';
    const page = await open(context, `/map?m=${model}&v=model`);
    const canvas = page.locator('canvas[role=application]').first();
    await canvas.focus();
    const first = await pressed(page, 'ArrowUp'); // where one is
    check(/Layer 0, head 0/.test(first), first);
    const second = await pressed(page, 'ArrowRight');
    check(!/head 0 /.test(second), `the next block: ${second}`);
    // The second head of the lowest layer, wherever it is drawn: a click chooses it.
    const at = await canvas.evaluate(async (c) => {
      const box = c.getBoundingClientRect();
      for (let y = box.height - 8; y > 20; y -= 6) {
        for (let x = 34; x < box.width * 0.42; x += 12) {
          c.dispatchEvent(new PointerEvent('pointermove', { clientX: box.x + x, clientY: box.y + y, bubbles: true }));
          await new Promise((done) => setTimeout(done));
          if (c.style.cursor === 'pointer' && /head 1 /.test(c.parentElement.querySelector('.words').textContent)) return { x, y };
        }
      }
      c.dispatchEvent(new PointerEvent('pointerleave'));
      return null;
    });
    if (at) await canvas.click({ position: at });
    const found = at !== null;
    if (found) await page.waitForFunction(() => /[?&]h=1/.test(location.hash));
    check(found || family === 'reader', 'a second head'); // quickstart's reader has one in each layer
    await page.mouse.move(1, 1);
    await page.waitForFunction(() => document.querySelector('.model canvas').style.cursor === 'default'); // no block is pointed at
    await canvas.focus();
    await pressed(page, 'ArrowDown');
    let where = await pressed(page, 'ArrowDown');
    for (let i = 0; i < 40 && !/^W_O|^W_1/.test(where); ++i) where = await pressed(page, i < 8 ? 'ArrowDown' : 'ArrowRight');
    check(/^W_[O1]: \d+ × \d+/.test(where), `a matrix with its size: ${where}`);
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash.startsWith('#/steps'));
    await settle(page);
    check(page.url().includes(where.startsWith('W_O') ? 's=7' : 's=9'), page.url());
    await finish(context, page);
  }, { alone: 'firefox' }); // a window without the focus loses keys there
}

test('the whole model has a table, is saved as SVG and CSV, fits a phone and has no violation of axe', async (context) => {
  for (const options of [{}, { colorScheme: 'dark', locale: 'ko-KR' }, { viewport: { width: 390, height: 844 } }]) {
    const page = await open(context, `/map?m=${context.models.seq2seq ?? context.models.decoder}&v=model`, options);
    await page.evaluate(readFileSync(axePath, 'utf8'));
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    check(violations.length === 0, violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(' | ')}`).join('\n'));
    check((await page.evaluate(() => document.documentElement.scrollWidth)) <= (options.viewport?.width ?? 1280), 'it fits');
    if (!options.locale && !options.viewport) {
      const svg = readFileSync(await menu(page, 'SVG'), 'utf8');
      check(svg.includes('<polygon') && svg.includes('W_Q'), 'a drawing with the names of the matrices');
      const csv = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n');
      const row = csv.find((line) => line.startsWith('W_Q')).split(',').map(Number);
      check(row[1] * row[2] === row[3] && row[3] > 0, `rows, columns and numbers: ${row}`);
      await page.locator('figure summary', { hasText: 'Show as a table' }).click();
      await page.locator('figure table tbody tr').nth(5).waitFor(); // the same on the page
    }
    await finish(context, page);
  }
});

test('the small model beside the steps says where one is, and leads elsewhere', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1&h=1`);
  const words = page.locator('.here .words');
  check(/layer 1, head 1/.test(await words.textContent()), await words.textContent());
  await page.locator('.here canvas').focus();
  await pressed(page, 'ArrowUp', '.here .words');
  await pressed(page, 'ArrowDown', '.here .words');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !/[?&]l=1/.test(location.hash));
  await settle(page);
  await finish(context, page);
}, { alone: 'firefox' });

test('one walks through the whole model by keyboard; the marker runs only where motion is welcome', async (context) => {
  for (const reducedMotion of ['no-preference', 'reduce']) {
    const page = await open(context, `/map?m=${context.models.decoder}&v=model`, { reducedMotion });
    const place = () => page.locator('.marker').evaluate((e) => { const box = e.getBoundingClientRect(); return [box.x, box.y]; });
    const layers = Number((await page.locator('canvas[role=application]').first().getAttribute('aria-label')).match(/(\d+) layers/)[1]);
    const texts = new Set(), places = new Set();
    for (let stop = 0; stop < 2 + 4 * layers; ++stop) {
      const running = await page.evaluate(() => document.getAnimations().length);
      check(stop === 0 || reducedMotion === 'no-preference' || running === 0, `${running} animations`);
      check(stop === 0 || reducedMotion === 'reduce' || running > 0, 'the marker runs');
      await page.waitForFunction(() => !document.getAnimations().length);
      await settle(page);
      texts.add(await page.locator('.way p').textContent());
      places.add(String(await place()));
      if (stop < 1 + 4 * layers) await page.keyboard.press(']');
    }
    check(texts.size === 2 + 4 * layers, `${texts.size} stops`);
    check(places.size >= 6, `${places.size} places`);
    check(await page.getByRole('button', { name: 'Next' }).isDisabled(), 'the prediction is the end');
    check(/[?&]s=10/.test(page.url()), page.url());
    await finish(context, page);
  }
});

for (const colorScheme of ['light', 'dark']) {
  test(`nothing jumps when data arrives late, ${colorScheme}`, async (context) => {
    if (context.name !== 'chromium') return 'skip'; // Firefox does not report layout shifts
    const page = await open(context, '/train', {
      colorScheme,
      beforeLoad: async (p) => {
        await p.addInitScript(() => {
          globalThis.jumped = 0;
          new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) globalThis.jumped += e.value; })).observe({ type: 'layout-shift' });
        });
        if (!context.mock) await p.route('**/heed/v1/traces/**', async (route) => { await new Promise((done) => setTimeout(done, 120)); await route.continue(); });
      },
    });
    for (const family of ['decoder', 'encoder', 'seq2seq', 'vision']) {
      const model = context.models[family];
      if (!model) continue;
      await page.evaluate((to) => (location.hash = to), `#/steps?m=${model}&l=1&s=0`); // another model may have another picture
      await settle(page);
      for (let step = 1; step < 11; ++step) {
        await page.evaluate((to) => { globalThis.jumped = 0; location.hash = to; }, `#/steps?m=${model}&l=1&s=${step}`);
        await settle(page);
        const jumped = await page.evaluate(() => globalThis.jumped);
        check(jumped <= 0.02, `step ${step + 1} of ${family}: the layout shifted by ${jumped.toFixed(3)}`);
      }
    }
    await finish(context, page);
  });
}
