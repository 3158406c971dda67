// What a person does on the page, in a browser, against a server that speaks the protocol.
import { readFileSync } from 'node:fs';
import { finish, menu, open, screens, settle } from './page.mjs';
import { axePath, check, test } from './support.mjs';

for (const language of ['en-US', 'ko-KR']) {
  for (const scheme of ['light', 'dark']) {
    test(`every screen without a violation of axe, ${language}, ${scheme}`, async (context) => {
      const page = await open(context, '/read', { locale: language, colorScheme: scheme });
      check((await page.locator('html').getAttribute('data-theme')) === scheme, scheme);
      await page.evaluate(readFileSync(axePath, 'utf8'));
      for (const screen of screens) {
        await page.evaluate((s) => (location.hash = `#/${s}?l=1&h=0&q=8&k=2`), screen);
        await settle(page);
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

test('Enter runs, but not while a syllable is composed; the language switch leaves it alone', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}`);
  const box = page.locator('#text');
  let runs = 0;
  page.on('request', (r) => { if (r.url().endsWith('/heed/v1/traces')) ++runs; });
  await box.fill('고양이가 매트 위에 ');
  if (context.name === 'chromium') {
    // An input method's own events: jamo become a syllable, key code 229, and Enter ends the composition.
    const keys = await page.context().newCDPSession(page);
    const press = (key, code) => keys.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key, windowsVirtualKeyCode: code });
    await box.focus();
    await page.keyboard.press('End');
    for (const text of ['ㅎ', '하', '한']) {
      await press('Process', 229);
      await keys.send('Input.imeSetComposition', { text, selectionStart: 1, selectionEnd: 1 });
    }
    await press('Enter', 229);
    check(runs === 0, 'Enter that ends a composition must not run the model');
    await keys.send('Input.insertText', { text: '한' });
    check((await box.inputValue()).endsWith('위에 한'), `the composed syllable: ${await box.inputValue()}`);
  }
  const press = (init, keyCode) => box.evaluate((element, [i, code]) => {
    const event = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, ...i });
    if (code) Object.defineProperty(event, 'keyCode', { value: code });
    element.dispatchEvent(event);
  }, [init, keyCode]);
  await box.evaluate((e) => e.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true })));
  await press({ isComposing: true });
  await press({}, 229);
  const typed = await box.inputValue();
  await page.getByRole('button', { name: '한국어' }).click();
  check((await box.inputValue()) === typed, 'the text stays while the language changes');
  await box.evaluate((e, data) => e.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true, data })), '한');
  check(runs === 0, 'composition must not run the model');
  await box.press('Enter');
  await settle(page);
  check(runs === 1, `Enter runs once, not ${runs} times`);
  const written = await page.locator('[role=toolbar]').first().locator('button').allTextContents();
  check(written.join('').includes('고양이가') || written.length > 3, `tokens of the new text: ${written}`);
  await finish(context, page);
});

test('byte fragments of a syllable stand together', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}&x=${encodeURIComponent('학교에 뷁')}`);
  const joined = page.locator('[role=toolbar]').first().locator('button.joined');
  const pieces = await joined.allTextContents();
  check(pieces.slice(-2).join() === '뷁(2/3),뷁(3/3)', `the continuation pieces say of what: ${pieces}`);
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

for (const family of ['decoder', 'encoder', 'seq2seq', 'vision', 'captioner', 'reader', 'quantised']) {
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
    const sum = Number((await page.locator('section.content tfoot .number').textContent()).replaceAll('−', '-'));
    const terms = await page.locator('section.content tbody tr td:nth-child(4)').allTextContents();
    check(Math.abs(terms.reduce((s, x) => s + Number(x.replaceAll('−', '-')), 0) - sum) < 0.0005 * terms.length + 1e-6, 'a score is the sum of its products');
    await finish(context, page);
  });

  test(`why, ${family}: the parts add up to the score`, async (context) => {
    const model = context.models[family];
    if (!model) return 'skip';
    const page = await open(context, `/why?m=${model}&l=1`);
    const numbers = await page.locator('[data-testid=why-sum] > div:not(.weight) .number').evaluateAll((all) => all.map((n) => Number(n.title.split(' ')[0])));
    const [score, ...parts] = numbers;
    const total = parts.reduce((x, y) => x + y, 0);
    check(Math.abs(total - score) <= 1e-5 * Math.max(1, Math.abs(score)), `${score} is not ${total}`);
    const remainder = Math.abs(parts[parts.length - 1]);
    check(remainder <= 1e-5 * Math.max(1, Math.abs(score)), `remainder ${remainder}`);
    for (const side of ['Query side', 'Key side']) {
      await page.locator('.segments label', { hasText: side }).click();
      const names = await page.locator('ul.bars').first().locator('.name').allTextContents();
      check(new Set(names).size === names.length, `${side}: each part has a name of its own: ${names}`);
      if (family === 'seq2seq' && side === 'Key side') check(names.every((name) => /^encoder |^bias of the key|together$/.test(name)), `of the encoder: ${names}`);
    }
    const rounds = await page.getByText('round what they read to 8 bits').count();
    check(rounds === (family === 'quantised' ? 1 : 0), 'quantised weights are spoken of where there are any');
    await finish(context, page);
  });
}

test('any tensor within three clicks', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}`);
  await page.locator('details.panel summary').first().click();
  await page.locator('details.panel select').selectOption({ index: 3 });
  await page.locator('details.panel figure canvas').waitFor();
  // And any weight, whose numbers the server reads from the checkpoint.
  await page.locator('details.panel .segments label', { hasText: 'Weights' }).click();
  await page.locator('details.panel figure h3', { hasText: 'weight' }).waitFor();
  const npy = readFileSync(await menu(page, '.npy', (await page.locator('figure details.export summary').count()) - 1));
  check(/'shape': \(\d+, \d+\)/.test(npy.toString('latin1')), 'the weight as an array');
  await finish(context, page);
});

test('temperature and the missing √d_k change the distributions', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1&s=10`);
  const top = () => page.locator('ol.bars .value').first().textContent();
  const before = await top();
  await page.getByRole('slider', { name: 'Temperature' }).fill('3');
  check((await top()) !== before, 'temperature');
  await page.getByRole('spinbutton', { name: 'top-k' }).fill('1');
  check((await top()) === '100 %', `one token is left: ${await top()}`);
  check((await page.locator('ol.bars .value').nth(1).textContent()) === '0 %', 'and the others cannot be drawn');
  await page.locator('nav.list a').nth(3).click();
  await settle(page);
  const text = () => page.locator('section.content p.num').textContent();
  const scaled = await text();
  await page.getByRole('slider').fill('1');
  check((await text()) !== scaled, 'saturation');
  await finish(context, page);
});

test('the mask of the steps is switched off, and what comes later gets weight', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1&q=1&s=4&x=${encodeURIComponent('the film was good')}`);
  const numbers = (list) => page.locator('section.content .two > div').nth(list).locator('.number').evaluateAll((all) => all.map((n) => n.title.split(' ')[0]));
  const [scores, weights] = [await numbers(0), await numbers(1)];
  check(scores.slice(2).every((x) => x === '-Infinity') && weights.slice(2).every((x) => Number(x) === 0), `hidden: ${scores} ${weights}`);
  await page.getByLabel('Mask on').uncheck();
  const free = (await numbers(1)).map(Number);
  check((await numbers(0)).every((x) => Number.isFinite(Number(x))) && free.every((x) => x > 0), `seen: ${free}`);
  check(Math.abs(free.reduce((x, y) => x + y, 0) - 1) < 1e-6, 'and they sum to 1');
  await finish(context, page);
});

test('the scale of colours is chosen, and every picture of weights follows it', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}&l=1`);
  const pictures = new Set(), thumbs = new Set();
  for (const scale of ['absolute', 'linear', 'row', 'log']) {
    await page.locator('label', { hasText: 'Colours' }).locator('select').selectOption(scale);
    await settle(page);
    pictures.add(await page.locator('canvas[role=application]').first().evaluate((c) => c.toDataURL()));
    thumbs.add(await page.locator('button.thumb canvas').nth(5).evaluate((c) => c.toDataURL()));
  }
  check(pictures.size === 4 && thumbs.size >= 3, `${pictures.size} maps and ${thumbs.size} thumbnails of 4 scales`);
  await finish(context, page);
});

test('a number is copied by a click, whole', async (context) => {
  const page = await open(context, `/steps?m=${context.models.decoder}&l=1&s=5`);
  const number = page.locator('section.content td .number').first(), whole = (await number.getAttribute('title')).split(' ')[0];
  await number.click();
  await page.locator('section.content td .number', { hasText: 'copied' }).waitFor();
  await page.evaluate(() => (location.hash = '#/read')); // and pasted, which needs no permission
  const box = page.locator('#text');
  await box.fill('');
  await box.focus();
  await page.keyboard.press('Control+v');
  await page.waitForFunction(() => document.querySelector('#text').value);
  check((await box.inputValue()) === whole, `${await box.inputValue()} and ${whole}`);
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
  // Weights and positions can be multiplied, and one word's vector can come from the other text.
  const scaleBy = (factor) => page.getByRole('slider', { name: 'Strength' }).fill(factor);
  for (const [kind, prepare, name] of [
    ['Connection', () => scaleBy('0.5'), /the weight of .* × 0.5/],
    ['Position', async () => { await page.getByText('a multiple of it').click(); await scaleBy('2'); }, /× 2 at /],
    ['Patch', () => page.getByText('one word, where it enters the layer').click(), /hook_resid_pre taken from the other text/],
  ]) {
    await page.locator('.segments label', { hasText: kind }).first().click();
    await prepare();
    await page.getByRole('button', { name: 'Apply' }).first().click();
    await page.locator('ol.did li', { hasText: name }).waitFor();
    await page.locator('[data-testid=verdict]').waitFor();
  }
  check((await page.locator('section .note').count()) === 0, 'every change was applied');
  await page.locator('form input').first().fill('dog');
  await page.getByRole('button', { name: 'Swap' }).click();
  await page.waitForFunction(() => document.querySelectorAll('ul.pairs').length === 2);
  await finish(context, page);
});

/// Asks the server what the page asks it: the answer to a POST.
async function ask(context, path, body) {
  const answer = await fetch(`${context.url}/heed/v1/${path}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  check(answer.ok, `${path}: ${answer.status}`);
  return answer.json();
}
const sentence = 'the film was good 1 the film was';

test('the heads of the map stand in the order of the chosen measure', async (context) => {
  const model = context.models.decoder;
  const page = await open(context, `/map?m=${model}&x=${encodeURIComponent(sentence)}`);
  const trace = await ask(context, 'traces', { model, text: sentence });
  const { kind, layers } = trace.attentions[0];
  const figures = new Map();
  for (let layer = 0; layer < layers; ++layer) {
    for (const head of (await ask(context, `traces/${trace.id}/heads`, { kind, layer })).heads) figures.set(`${layer}.${head.head}`, head);
  }
  const thumbs = page.locator('section.heads button.thumb');
  const names = () => thumbs.locator('strong').allTextContents();
  const byPlace = await names();
  check(byPlace.join() === [...figures.keys()].join(), `by layer and head at first: ${byPlace}`);
  for (const [measure, sign] of [['entropy', 1], ['mean_distance', -1], ['induction', -1], ['previous', -1], ['output_share', -1]]) {
    await page.locator('section.heads select').selectOption(measure);
    await page.waitForFunction(() => document.querySelector('section.heads .line.sorted'));
    const order = await names();
    check([...order].sort().join() === [...byPlace].sort().join(), `${measure}: every head once: ${order}`);
    const values = order.map((name) => figures.get(name)[measure]);
    check(values.every((value, i) => i === 0 || sign * value >= sign * values[i - 1]), `${measure}: ${order} have ${values}`);
    const written = (await thumbs.locator('.soft').allTextContents()).map((text) => Number(text.replaceAll('−', '-')));
    check(written.every((value, i) => Math.abs(value - values[i]) <= 0.00501), `${measure}: ${written} are written, ${values} are right`);
    if (measure === 'entropy' || measure === 'mean_distance') check(order.join() !== byPlace.join(), `${measure}: the order changes`);
  }
  await page.locator('section.heads select').selectOption('pattern');
  await page.waitForFunction(() => /^\p{L}/u.test(document.querySelector('section.heads .thumb .soft').textContent));
  const patterns = (await names()).map((name) => figures.get(name).pattern);
  check(patterns.every((pattern, i) => patterns.indexOf(pattern) === i || pattern === patterns[i - 1]), `heads of one pattern stand together: ${patterns}`);
  await page.locator('section.heads select').selectOption('place');
  await page.locator('section.heads .layer').first().waitFor();
  check((await names()).join() === byPlace.join(), 'and back');
  await finish(context, page);
});

test('special tokens are hidden from the map, and the other weights stay', async (context) => {
  const model = context.models.encoder;
  if (!model) return 'skip';
  const page = await open(context, `/map?m=${model}&l=1&h=0&x=${encodeURIComponent('the film was [MASK]')}`);
  const table = async () => readFileSync(await menu(page, 'CSV'), 'utf8').replace(/^\uFEFF/, '').split('\r\n').filter(Boolean).map((line) => line.split(','));
  const all = await table();
  await page.getByLabel('Hide special tokens').check();
  await settle(page);
  const kept = await table();
  const special = (label) => /^"?\[(CLS|SEP)\]"?$/.test(label);
  check(all[0].some(special) && !kept[0].some(special) && !kept.some(([label]) => special(label)), `${all[0]} became ${kept[0]}`);
  const columns = all[0].map((_, i) => i).filter((i) => kept[0].includes(all[0][i]));
  for (const row of kept.slice(1)) {
    const before = all.find(([label]) => label === row[0]);
    check(row.join() === columns.map((i) => before[i]).join(), `the weights of ${row[0]}: ${row} and ${before}`);
  }
  await finish(context, page);
});

test('without the causal mask the prediction is the one that the engine gives', async (context) => {
  const model = context.models.decoder, interventions = [{ type: 'causal', enabled: false }];
  const page = await open(context, `/experiments?m=${model}&x=${encodeURIComponent(sentence)}`);
  await page.locator('.segments label', { hasText: 'Mask' }).click();
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('[data-testid=verdict]').waitFor();
  // Not by the page's question, but by two forward passes of their own: one with the mask, one without.
  const { candidates: masked } = (await ask(context, 'traces', { model, text: sentence, top_k: 100 })).prediction;
  const { candidates: unmasked } = (await ask(context, 'traces', { model, text: sentence, top_k: 100, interventions })).prediction;
  const rows = await page.locator('ul.pairs li').evaluateAll((all) => all.map((row) => ({
    token: row.querySelector('.name').textContent, numbers: [...row.querySelectorAll('.number')].map((n) => Number(n.title.split(' ')[0])),
  })));
  check(rows.length >= 5, `${rows.length} candidates`);
  let largest = 0;
  for (const { token, numbers: [before, after] } of rows) {
    const among = (candidates, value) => candidates.some((c) => Math.abs(c.probability - value) <= 1e-6);
    check(among(masked, before), `“${token}” before: ${before}`);
    check(among(unmasked, after), `“${token}” after: ${after}`);
    largest = Math.max(largest, Math.abs(before - after));
  }
  check(largest > 1e-6, `the prediction changes: ${largest}`);
  const verdict = await page.locator('[data-testid=verdict]').textContent(), same = masked[0].id === unmasked[0].id;
  check(verdict.includes(unmasked[0].token.trim()) && (same || verdict.includes(masked[0].token.trim())), `“${verdict}”, the engine says ${masked[0].token} and ${unmasked[0].token}`);
  check((await page.locator('ul.pairs li .name').first().textContent()).trim() === (unmasked[0].probability > masked[0].probability ? unmasked[0] : masked[0]).token.trim(), 'the most probable stands first');
  await page.getByRole('button', { name: 'Undo all' }).click();
  await page.locator('[data-testid=verdict]').waitFor({ state: 'detached' });
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

test('the arcs of all heads of a layer, each in its colour', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}&l=1`);
  await page.locator('.segments label', { hasText: 'Arcs' }).click();
  await settle(page);
  const csv = readFileSync(await menu(page, 'CSV'), 'utf8').split('\r\n').filter(Boolean).slice(1);
  check(csv.every((line) => Math.abs(line.split(',').slice(1).map(Number).filter((x) => !Number.isNaN(x)).reduce((x, y) => x + y, 0) - 1) < 1e-5), 'the table beside the arcs holds the weights');
  await page.getByLabel('All heads of the layer').check();
  await settle(page);
  const heads = await page.locator('.legend-heads button').count();
  check(heads > 1, `${heads} heads`);
  const colours = async () => new Set([...readFileSync(await menu(page, 'SVG'), 'utf8').matchAll(/stroke="([^"]+)"/g)].map((m) => m[1])).size;
  check((await colours()) === heads, 'a colour for each head');
  await page.locator('.legend-heads button').first().click();
  await settle(page);
  check((await colours()) === heads - 1, 'one head is switched off');
  await finish(context, page);
});

test('a recording is heard', async (context) => {
  if (!context.models.speech) return 'skip';
  const page = await open(context, `/read?m=${context.models.speech}`);
  await page.getByRole('button', { name: 'Use a synthetic sound' }).click();
  await page.getByRole('img', { name: 'The recording' }).waitFor();
  await settle(page);
  check((await page.locator('.sentence strong').first().textContent()).endsWith(' s'), 'a moment got the most attention');
  check((await page.locator('h2', { hasText: 'From sound to prediction' }).count()) === 1, 'the first picture says that it starts with sound');
  const times = await page.locator('.axis span').allTextContents();
  check(new Set(times).size === times.length, `each mark of the time axis has its own time: ${times}`);
  await page.evaluate(() => (location.hash = '#/steps?s=5&l=1'));
  await settle(page);
  check((await page.locator('[data-testid=check]').textContent()).includes('✓'), 'its steps are the engine’s');
  await finish(context, page);
});

test('what was typed stays where another model can read it', async (context) => {
  const { decoder, seq2seq, encoder } = context.models;
  if (!seq2seq || !encoder) return 'skip';
  const page = await open(context, `/read?m=${decoder}`);
  const box = page.locator('#text'), model = page.locator('header select');
  await model.selectOption(encoder);
  await settle(page);
  check((await box.inputValue()).includes('[MASK]'), `an example of its own: ${await box.inputValue()}`);
  await model.selectOption(decoder);
  await settle(page);
  await box.fill('the film was bad');
  await box.press('Enter');
  await settle(page);
  await model.selectOption(seq2seq);
  await settle(page);
  check((await box.inputValue()) === 'the film was bad', `the same text: ${await box.inputValue()}`);
  await finish(context, page);
});

test('two heads are compared, and their difference', async (context) => {
  const page = await open(context, `/compare?m=${context.models.decoder}`);
  check((await page.locator('dl.figures .number').count()) === 3, 'three figures of the difference');
  await page.locator('.panel').nth(1).locator('select').last().selectOption('0');
  await page.waitForFunction(() => document.querySelector('dl.figures .number')?.textContent === '1.000');
  await finish(context, page);
});

test('two texts are compared, each with its own prediction', async (context) => {
  const model = context.models.decoder, other = 'the film was good 2 the film was';
  const page = await open(context, `/compare?m=${model}&x=${encodeURIComponent(sentence)}`);
  const b = page.locator('.panel').nth(1);
  await b.getByRole('textbox', { name: 'Text of B' }).fill(other);
  await b.getByRole('button', { name: 'Apply' }).click();
  await page.waitForFunction(() => /good[ +]2/.test(decodeURIComponent(location.hash)));
  await settle(page);
  for (const [side, text] of [[0, sentence], [1, other]]) {
    const { candidates } = (await ask(context, 'traces', { model, text })).prediction;
    const names = await page.locator('.panel').nth(side).locator('ol.bars li').evaluateAll((all) => all.map((row) => row.querySelector('.name').title));
    check(names.join() === candidates.slice(0, 5).map((c) => c.token).join(), `${'AB'[side]}: ${names}, the engine says ${candidates.slice(0, 5).map((c) => c.token)}`);
  }
  check((await page.locator('dl.figures .number').count()) === 3, 'and their difference');
  await finish(context, page);
});

const selectOf = (panel, label) => panel.locator('label', { hasText: new RegExp(`^${label}`) }).locator('select');

test('two models are compared, each with the layers and heads that it has', async (context) => {
  const { decoder, quantised, reader } = context.models;
  if (!quantised || !context.long) return 'skip';
  const { models } = await (await fetch(`${context.url}/heed/v1/models`)).json();
  const shape = (id) => models.find((m) => m.id === id).attentions[0];
  const large = shape(decoder), small = shape(quantised);
  check(large.layers > small.layers && large.heads > small.heads, 'one of the models is smaller');
  const page = await open(context, `/compare?m=${decoder}&l=${large.layers - 1}&h=${large.heads - 1}&x=${encodeURIComponent(sentence)}`);
  const b = page.locator('.panel').nth(1);
  const choose = async (id) => {
    await selectOf(b, 'Model').selectOption(id);
    await settle(page);
  };
  /// The selectors of side B offer what the model has, and the picture is of what they say.
  const inRange = async (id, { layers, heads }) => {
    for (const [label, size] of [['Layer', layers], ['Head', heads]]) {
      const select = selectOf(b, label);
      const options = await select.locator('option').allTextContents();
      check(options.join() === Array.from({ length: size }, (_, i) => i).join(), `${id}: ${label} offers ${options}, there are ${size}`);
      const value = Number(await select.inputValue());
      check(value >= 0 && value < size, `${id}: ${label} ${value} of ${size}`);
      check((await b.locator('figure h3').first().textContent()).toLowerCase().includes(`${label.toLowerCase()} ${value}`), `${id}: the title says ${label} ${value}`);
    }
    for (const side of [0, 1]) check((await page.locator('.panel').nth(side).locator('figure canvas').count()) === 1, `${id}: a picture on side ${'AB'[side]}`);
  };
  const tile = async (id, layer, head) => {
    const trace = await ask(context, 'traces', { model: id, text: sentence });
    const { values } = await ask(context, `traces/${trace.id}/tile`, { kind: trace.attentions[0].kind, layer, head, what: 'weights', level: 0, row: 0, column: 0 });
    return { ...values, numbers: new Float32Array(new Uint8Array(Buffer.from(values.data, 'base64')).buffer) };
  };
  await choose(quantised);
  await inRange(quantised, small);
  // The tokens are the same, so there is a difference, and it is the difference of the weights.
  const at = async (side, label) => Number(await selectOf(page.locator('.panel').nth(side), label).inputValue());
  const mine = await tile(decoder, await at(0, 'Layer'), await at(0, 'Head')), theirs = await tile(quantised, await at(1, 'Layer'), await at(1, 'Head'));
  check(mine.shape.join() === theirs.shape.join(), `${mine.shape} and ${theirs.shape}`);
  const most = mine.numbers.reduce((x, value, i) => Math.max(x, Math.abs(value - theirs.numbers[i])), 0);
  const figures = await page.locator('dl.figures .number').evaluateAll((all) => all.map((n) => Number(n.title.split(' ')[0])));
  check(figures.length === 3 && Math.abs(figures[2] - most) <= 1e-6 && most > 0, `the largest difference is ${most}, not ${figures[2]}`);
  check((await page.locator('.panel').nth(2).locator('figure canvas').count()) >= 1, 'a picture of the difference');
  // Another tokenizer makes another number of tokens: there is no difference, and the page says why.
  await choose(context.long);
  await inRange(context.long, shape(context.long));
  check((await page.locator('.panel').nth(2).textContent()).includes('different sizes'), 'the reason why there is no difference');
  check((await page.locator('dl.figures').count()) === 0, 'no figures of a difference that does not exist');
  if (reader) {
    await choose(reader);
    await inRange(reader, shape(reader));
  }
  await finish(context, page);
  // From the smaller to the larger model: all of its layers can be chosen.
  const other = await open(context, `/compare?m=${quantised}&l=1&h=1&x=${encodeURIComponent(sentence)}&b=${encodeURIComponent(decoder)}`);
  const layer = selectOf(other.locator('.panel').nth(1), 'Layer');
  await layer.selectOption(String(large.layers - 1));
  await settle(other);
  check((await layer.inputValue()) === String(large.layers - 1), 'the last layer of the larger model');
  check(/[?&]b=/.test(other.url()) && (await other.locator('dl.figures .number').count()) === 3, 'in the link, and compared');
  await finish(context, other);
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

test('a candidate is written and the model goes on from there', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}`);
  const box = page.locator('#text'), before = await box.inputValue();
  const candidate = page.locator('ol.bars button.name').first(), word = await candidate.textContent();
  await candidate.click();
  await page.waitForFunction((text) => document.querySelector('#text').value !== text, before);
  await settle(page);
  const after = await box.inputValue();
  check(after.startsWith(before) && after.length > before.length, `“${before}” goes on as “${after}”`);
  check(after.slice(before.length).trim() === word.trim() || !/^[\w.]+$/.test(word), `“${word}” was written: “${after}”`);
  await finish(context, page);
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
}, { alone: true }); // Firefox draws the ring in the window that has the focus: one page at a time

test('an answer that fails is said in place', async (context) => {
  const page = await open(context);
  await page.route('**/traces/*/tile', (route) => route.fulfill({ status: 409, contentType: 'application/json', body: JSON.stringify({ error: { message: 'this cannot be shown', code: 'unsupported' } }) }));
  await page.evaluate(() => (location.hash = '#/map'));
  await page.locator('.note', { hasText: 'this cannot be shown' }).waitFor();
  page.problems = [];
  await finish(context, page);
});
