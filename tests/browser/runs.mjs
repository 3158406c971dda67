// Training runs: followed, scrubbed through, compared by checkpoint.
import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { finish, menu, open, settle } from './page.mjs';
import { check, test } from './support.mjs';

test('a run is followed, with a scrubber over its heads', async (context) => {
  if (!context.runs.length) return 'skip';
  for (const run of context.runs) {
    const page = await open(context, `/train?r=${run}`);
    check((await page.locator('.uplot').count()) >= 2, 'curves');
    const { steps } = await (await fetch(`${context.url}/heed/v1/runs/${run}/tracked`)).json();
    const at = page.locator('section', { hasText: 'Heads over time' }).locator('strong.num, p.num strong');
    if (steps.length) {
      const figure = (await page.locator('figure details.export').count()) - (steps.length > 1 ? 2 : 1); // the entropies stand behind it
      const svg = readFileSync(await menu(page, 'SVG', figure), 'utf8');
      check(svg.match(/<image /g)?.length === (await page.locator('.heads > .head').count()), 'the heads as a picture');
    }
    if (steps.length > 1) {
      await page.getByRole('slider').fill('0');
      check((await at.textContent()).includes(`step ${steps[0]}`), `back to the first snapshot: ${await at.textContent()}`);
      await page.getByRole('button', { name: 'Play' }).click();
      await page.waitForFunction((text) => document.querySelector('.scrub strong').textContent.includes(text), `step ${steps[1]}`);
    } else if (steps.length === 1) {
      check((await at.textContent()).includes(`step ${steps[0]}`), 'the only snapshot');
      check((await page.getByRole('slider').count()) === 0, 'nothing to scrub over');
    }
    await finish(context, page);
  }
});

test('a run that goes on is followed, and its end is seen', async (context) => {
  if (!context.folder) return 'skip';
  // What a training process does: it holds the lock and adds lines.
  const step = context.name === 'chromium' ? 777 : 778; // each browser waits for a line of its own
  const folder = join(context.folder, context.runs.at(-1));
  const trainer = spawn('flock', [join(folder, 'lock'), 'sleep', '60'], { detached: true });
  try {
    const page = await open(context, `/train?r=${context.runs.at(-1)}`);
    await page.locator('.tag.live').waitFor();
    appendFileSync(join(folder, 'metrics.jsonl'), `{"step":${step},"loss":0.5,"tokens_per_second":1000,"seconds":9}\n`);
    await page.getByText(`step ${step}`).first().waitFor();
    const first = await context.browser.newPage();
    await first.goto(context.url); // without a link to a screen
    await first.locator('.tag.live').waitFor();
    check(first.url().includes('#/train'), `what heed explore RUN opens: ${first.url()}`);
    await first.close();
    process.kill(-trainer.pid);
    await page.locator('.tag', { hasText: 'ended' }).waitFor();
    await finish(context, page);
  } finally {
    try { process.kill(-trainer.pid); } catch { /* it has ended */ }
  }
});

test('a checkpoint of a run is compared with its last weights', async (context) => {
  if (!context.folder) return 'skip';
  const page = await open(context, `/compare?m=${context.models.decoder}`);
  const model = page.locator('.panel').nth(1).locator('select').first();
  const step = await model.locator('option', { hasText: 'checkpoint' }).first().getAttribute('value');
  check(/@\d+$/.test(step ?? ''), 'the run has checkpoints');
  await model.selectOption(step);
  await page.locator('.panel').nth(1).locator('select').last().selectOption('0');
  await settle(page);
  const cosine = Number(await page.locator('dl.figures .number').first().textContent());
  check(cosine > 0.5 && cosine <= 1, `the same head some steps earlier: cosine ${cosine}`);
  await finish(context, page);
});
