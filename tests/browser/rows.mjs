// node tests/browser/rows.mjs URL HEED FOLDER: models whose rows are patches of several grids, or numbers, and models that give
// vectors. Last line: N passed, N failed, N skipped.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { check, closeAll, launch, runAll, test } from './support.mjs';
import { python, runNumpy } from './numpy.mjs';
import { finish, open, saved, settle } from './page.mjs';

const [url, heed, folder] = process.argv.slice(2);
const goTo = async (page, change) => {
  await page.evaluate((to) => (location.hash = to), change);
  await settle(page);
};
/// All steps of the chosen attention: the page's weights are the engine's, and nothing is complained about.
async function walk(page, what, first = 1, last = 11) {
  for (let step = first; step <= last; ++step) {
    const said = await page.locator('[data-testid=check]').textContent(), notes = await page.locator('section.content .note').allTextContents();
    check(said.includes('✓') && !notes.length, `${what}, step ${step}: ${said} ${notes}`);
    if (step < last) await page.keyboard.press(']');
    await settle(page);
  }
}

for (const [model, stages] of [['swin_classify', [[9, 9, 2], [6, 6, 1]]], ['swin_odd', [[12, 12, 2], [6, 6, 2], [4, 4, 1]]]]) {
  test(`${model}: every stage has its own grid on the picture, and all steps`, async (context) => {
    const page = await open(context, `/read?m=${model}`);
    check((await page.locator('.note').count()) === 0, 'it is not refused');
    for (const [stage, [rows, columns, layers]] of stages.entries()) {
      await goTo(page, `#/read?m=${model}&a=stage${stage}`);
      const cells = page.locator('.frame').first().locator('.grid button');
      check((await cells.count()) === rows * columns, `stage ${stage} shows ${await cells.count()} places`);
      for (let layer = 0; layer < layers; ++layer) {
        await goTo(page, `#/steps?m=${model}&a=stage${stage}&l=${layer}&q=${columns + 1}`);
        await walk(page, `stage ${stage}, layer ${layer}`);
      }
      await goTo(page, `#/map?m=${model}&a=stage${stage}`);
      check((await page.locator('.thumb').count()) > 0 && (await page.locator('.note').count()) === 0, `the map of stage ${stage}`);
      await goTo(page, `#/why?m=${model}&a=stage${stage}&q=${columns + 1}`);
      const remainder = Number(await page.locator('[data-remainder]').getAttribute('data-remainder'));
      check(Math.abs(remainder) < 1e-4, `the parts of a score of stage ${stage} leave ${remainder}`);
    }
    await finish(context, page);
  });
}
test('places that only fill up a window cannot be chosen, and patches can', async (context) => {
  const page = await open(context, '/steps?m=swin_odd&a=stage0');
  const cells = page.locator('.frame .grid button');
  check(await cells.nth(11).isDisabled(), 'the twelfth column is no patch');
  await cells.nth(12).click();
  await settle(page);
  check(/[?&]q=12/.test(page.url()) && (await page.locator('section.content .note').count()) === 0, `the first of the second row: ${page.url()}`);
  await finish(context, page);
});
test('a head of a later stage and a position of it are changed', async (context) => {
  const page = await open(context, '/experiments?m=swin_odd&a=stage1&l=1&h=1');
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('[data-testid=verdict]').waitFor();
  await page.locator('.segments label', { hasText: 'Position' }).click();
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('ol.did li').nth(1).waitFor();
  check((await page.locator('.note').count()) === 0, 'without a complaint');
  await finish(context, page);
});
test('a regressor reads numbers and answers as heed predict does', async (context) => {
  const page = await open(context, '/read?m=regressor');
  await page.locator('#text').fill('1 2 3 4 5');
  await page.locator('#text').press('Enter');
  await settle(page);
  const wanted = Number(execFileSync(heed, ['predict', `${folder}/regressor`, '1', '2', '3', '4', '5'], { encoding: 'utf8' }).trim().split(/\s+/).at(-1));
  const value = Number((await page.locator('[data-testid=value]').textContent()).replaceAll('−', '-'));
  check(Math.abs(value - wanted) < 1e-3, `${value}, not ${wanted}`);
  for (const kind of ['encoder', 'decoder', 'cross']) {
    await goTo(page, `#/steps?m=regressor&x=1+2+3+4+5&a=${kind}&l=1`);
    await walk(page, kind);
    check(Number((await page.locator('[data-testid=value]').textContent()).replaceAll('−', '-')).toFixed(3) === wanted.toFixed(3), `the last step of ${kind}`);
  }
  await goTo(page, '#/experiments?m=regressor&x=1+2+3+4+5&a=cross&l=1&h=1');
  await page.getByRole('button', { name: 'Apply' }).first().click();
  await page.locator('[data-testid=verdict]').waitFor();
  check(/→/.test(await page.locator('[data-testid=verdict]').textContent()), 'a number before and after');
  check(!page.requests.some((request) => /tokenize|\/lens|\/attribution/.test(request)), 'what needs words is not asked for');
  await finish(context, page);
});
test('what is no number is said to be none, in the language of the page', async (context) => {
  const page = await open(context, '/read?m=regressor', { locale: 'ko-KR' });
  await page.locator('#text').fill('하나 둘');
  await page.locator('#text').press('Enter');
  await page.locator('form .note').waitFor();
  check(/수가 아닙니다/.test(await page.locator('form .note').textContent()), await page.locator('form .note').textContent());
  page.problems = []; // the browser mentions the refused request
  await finish(context, page);
});
for (const locale of ['en-US', 'ko-KR']) {
  test(`a model without a head is asked for no answer (${locale})`, async (context) => {
    const page = await open(context, '/read?m=bert_base&x=w7+w8+w9', { locale });
    for (const screen of ['map', 'why', 'experiments', 'compare', 'steps']) await goTo(page, `#/${screen}?m=bert_base&x=w7+w8+w9`);
    for (let step = 1; step < 11; ++step) {
      await page.keyboard.press(']');
      await settle(page);
    }
    check(/[?&]s=10/.test(page.url()), `the last step: ${page.url()}`);
    const asked = page.requests.filter((request) => /\/(predict|lens|attribution|experiment)$/.test(request));
    check(!asked.length, `asked for ${asked}`);
    const last = await page.locator('section.content').textContent();
    check(locale === 'ko-KR' ? /이 모델은 답을 고르지 않습니다/.test(last) : /chooses no answer/.test(last), last);
    await finish(context, page);
  });
}

for (const [model, input, tokens] of [['longformer_classify', 'x=w7+w8+w9+w10+w11', [0]], ['longformer_qa', 'x=w7+w8&p=w9+w10+w11', [0, 1, 2]]]) {
  test(`the NumPy program of ${model} gives global tokens their own values`, async (context) => {
    if (!python) return 'skip';
    for (let layer = 0; layer < 2; ++layer) {
      const page = await open(context, `/steps?m=${model}&${input}&l=${layer}&h=1&s=6`);
      const file = await saved(page, () => page.locator('button.python').click());
      runNumpy(file);
      const rows = readFileSync(file, 'utf8').match(/^global_rows = (.*)$/m)?.[1];
      check(rows === JSON.stringify(tokens), `the global tokens of layer ${layer} are ${rows}`);
      for (const token of [tokens[0], 3]) { // one of each kind
        await goTo(page, `#/steps?m=${model}&${input}&l=${layer}&h=1&q=${token}&s=6`);
        await walk(page, `layer ${layer}, token ${token}`, 7, 7);
      }
      await finish(context, page);
    }
  });
}

const name = process.env.HEED_EXPLORER_BROWSER ?? 'chromium', context = { name, browser: await launch(name), url };
const count = await runAll(context, process.env.HEED_EXPLORER_FILTER ?? '');
await closeAll(context);
console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed ? 1 : 0);
