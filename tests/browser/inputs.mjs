// What goes into a model: an image that is dropped, a pair of texts, a text that does not fit; and what is done with it since.
import { finish, open, settle } from './page.mjs';
import { check, test } from './support.mjs';

test('an image is dropped on the page and read', async (context) => {
  const { vision } = context.models;
  if (!vision) return 'skip';
  const page = await open(context, `/read?m=${vision}`);
  const image = page.locator('.frame img').first(), before = await image.getAttribute('src');
  await page.locator('.drop').evaluate((element) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 48, height: 32 });
    const ctx = canvas.getContext('2d');
    ctx.fillStyle = '#c03020';
    ctx.fillRect(0, 0, 30, 32);
    const bytes = Uint8Array.from(atob(canvas.toDataURL('image/png').split(',')[1]), (c) => c.charCodeAt(0));
    const carried = new DataTransfer();
    carried.items.add(new File([bytes], 'red.png', { type: 'image/png' }));
    element.dispatchEvent(new DragEvent('drop', { dataTransfer: carried, bubbles: true, cancelable: true }));
  });
  await page.waitForFunction((old) => document.querySelector('.frame img')?.getAttribute('src') !== old, before);
  await settle(page);
  check((await page.locator('ol.bars li').count()) >= 2, 'its classes');
  check((await page.locator('.note').count()) === 0, 'without a complaint');
  await finish(context, page);
});

test('features of regions are dropped on the page and read', async (context) => {
  const { regions } = context.models;
  if (!regions) return 'skip';
  const page = await open(context, `/read?m=${regions}`);
  const source = () => page.locator('[role=toolbar]').last().locator('button').count();
  check((await source()) === 36, `an example before there is a file: ${await source()}`);
  check((await page.getByText('Until you choose a file').count()) === 1, 'which the page says');
  await page.locator('.drop').evaluate((element) => {
    // A .npy file of 3 regions with 16 features.
    const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 16), }`.padEnd(117) + '\n';
    const bytes = new Uint8Array(10 + head.length + 4 * 48);
    bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length, 0]);
    bytes.set(new TextEncoder().encode(head), 10);
    bytes.set(new Uint8Array(Float32Array.from({ length: 48 }, (_, i) => Math.cos(i)).buffer), 10 + head.length);
    const carried = new DataTransfer();
    carried.items.add(new File([bytes], 'regions.npy'));
    element.dispatchEvent(new DragEvent('drop', { dataTransfer: carried, bubbles: true, cancelable: true }));
  });
  await page.waitForFunction(() => [...document.querySelectorAll('[role=toolbar]')].at(-1)?.querySelectorAll('button').length === 3);
  await settle(page);
  check((await page.locator('ol.bars li').count()) >= 2, 'what comes next');
  check((await page.locator('.note').count()) === 0, 'without a complaint');
  for (const screen of ['map', 'steps', 'why', 'experiments', 'compare']) {
    await page.evaluate((to) => (location.hash = location.hash.replace(/^#\/\w+/, `#/${to}`)), screen);
    await settle(page);
    check((await page.locator('main .note').count()) === 0, `${screen}: ${await page.locator('main .note').allTextContents()}`);
  }
  await finish(context, page);
});

test('an empty text offers an example, which runs', async (context) => {
  const page = await open(context, `/read?m=${context.models.decoder}`);
  await page.locator('#text').fill('');
  await page.getByRole('button', { name: 'Use an example' }).click();
  await settle(page);
  check((await page.locator('#text').inputValue()).length > 3, 'the example');
  check((await page.locator('[role=toolbar]').first().locator('button').count()) > 2, 'its tokens');
  check((await page.getByRole('button', { name: 'Use an example' }).count()) === 0, 'and nothing is offered any more');
  await finish(context, page);
});

test('a pair of texts is read together', async (context) => {
  const { encoder } = context.models;
  if (!encoder) return 'skip';
  const page = await open(context, `/read?m=${encoder}&x=${encodeURIComponent('the film was [MASK]')}`);
  const tokens = () => page.locator('[role=toolbar]').first().locator('button').count();
  const alone = await tokens();
  if (!(await page.locator('summary', { hasText: 'Second text' }).count())) {
    await page.close();
    return 'skip';
  }
  await page.locator('summary', { hasText: 'Second text' }).click();
  await page.getByRole('textbox', { name: 'Second text' }).fill('the film was good');
  await page.getByRole('textbox', { name: 'Second text' }).press('Enter');
  await page.waitForFunction((n) => document.querySelector('[role=toolbar]')?.querySelectorAll('button').length > n, alone);
  check(/[?&]p=the/.test(page.url()), `the pair is in the link: ${page.url()}`);
  await finish(context, page);
});

test('what the server cannot do is said in the language of the page', async (context) => {
  if (context.mock) return 'skip';
  const page = await open(context, `/read?m=${context.models.decoder}`, { locale: 'ko-KR' });
  await page.locator('#text').fill('the film was good '.repeat(200));
  await page.locator('#text').press('Enter');
  const note = page.locator('form .note');
  await note.waitFor();
  check(/토큰이 \d+개입니다/.test(await note.textContent()), `in Korean: ${await note.textContent()}`);
  page.problems = []; // the browser mentions the refused request
  await finish(context, page);
}, { alone: 'firefox' }); // a window behind others waits for its frames there

test('one weight of a head is taken from another text', async (context) => {
  const page = await open(context, `/experiments?m=${context.models.decoder}&l=1&h=0&q=4&k=1`);
  await page.locator('.segments label', { hasText: 'Patch' }).click();
  await page.getByText('one weight of a head').click();
  const donor = page.locator('label.field input').first();
  await donor.fill((await donor.inputValue()).replace('sat', 'ran'));
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('ol.did li', { hasText: /the weight of .* taken from the other text/ }).waitFor();
  await page.locator('[data-testid=verdict]').waitFor();
  check((await page.locator('section .note').count()) === 0, 'it was applied');
  await finish(context, page);
});

test('the last step of a translation grows the tree of a beam search', async (context) => {
  const { seq2seq } = context.models;
  if (!seq2seq) return 'skip';
  const page = await open(context, `/steps?m=${seq2seq}&s=10`);
  const search = page.locator('section[aria-labelledby=beams]');
  await search.getByRole('button', { name: 'Start' }).click();
  await search.locator('svg path.on').first().waitFor({ state: 'attached' });
  await search.locator('summary', { hasText: 'Show as a table' }).click();
  check((await search.locator('table tbody tr').count()) >= 2, 'the same as a table');
  await finish(context, page);
});

test('the number under the keys of a picture is copied', async (context) => {
  const page = await open(context, `/map?m=${context.models.decoder}&l=1&h=0`);
  await page.locator('canvas[role=application]').first().focus();
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Control+c');
  await page.locator('.words', { hasText: 'copied' }).waitFor();
  const said = await page.locator('.words').first().textContent();
  await page.evaluate(() => (location.hash = '#/read')); // and pasted, which needs no permission
  const box = page.locator('#text');
  await box.fill('');
  await box.focus();
  await page.keyboard.press('Control+v');
  await page.waitForFunction(() => document.querySelector('#text').value);
  const number = Number(await box.inputValue());
  const percent = Number(said.match(/([\d.]+) %/)?.[1] ?? NaN);
  check(Math.abs(100 * number - percent) <= 0.06, `${number} and “${said}”`);
  await finish(context, page);
});

test('a model of speech asks for a recording on every screen', async (context) => {
  const { speech } = context.models;
  if (!speech) return 'skip';
  for (const screen of ['map', 'steps', 'why', 'experiments', 'compare']) {
    const page = await open(context, `/${screen}?m=${speech}`);
    check((await page.locator('main').textContent()).includes('Give it a recording first'), `${screen} says what is missing`);
    await page.getByRole('button', { name: 'Choose a recording' }).click();
    await page.getByRole('button', { name: 'Use a synthetic sound' }).waitFor();
    await finish(context, page);
  }
});
