// node tests/browser/families.mjs URL: every model of a server. The page's formulas are compared with the engine's weights, head
// by head; then one model of each model_type goes through all eleven steps on the page. Last line: N passed, N failed, N skipped.
import { loadTypeScript } from '../../web/scripts/mock.mjs';
import { closeAll, launch } from './support.mjs';
import { finish, open, settle } from './page.mjs';

const [url] = process.argv.slice(2);
const { headNumbers, largestDifference, rowSteps } = await loadTypeScript('../src/lib/math/attention.ts');
const { tensor } = await loadTypeScript('../src/lib/api/tensor.ts');
const kBar = 1e-6;
/// Longer texts go through Nystromformer's landmarks, which have no steps of their own.
const textFor = (model) => (model.model_type === 'nystromformer' ? 'w7 w8' : 'w7 w8 w9 w10 w7 w8');
const count = { passed: 0, failed: 0, skipped: 0 };
const failed = (name, reason) => {
  ++count.failed;
  console.log(`[  FAILED ] ${name}: ${reason}`);
};
async function post(path, body) {
  const response = await fetch(`${url}/heed/v1/${path}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (response.ok) return answer;
  throw new Error(`${path} ${JSON.stringify(body)}: ${response.status} ${answer.error.message}`);
}
/// A picture of some colours, as large as the model wants it.
function picture({ width, height }) {
  const pixels = Buffer.from(Array.from({ length: 3 * width * height }, (_, i) => (i * 37 + ((i * i) % 101)) % 256));
  return Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), pixels]).toString('base64');
}
/// The last position that stands for something: windows of a grid may be filled up behind it.
const lastOf = (tokens, queries) => { const at = tokens.findLastIndex((token) => token.label !== 'pad'); return tokens.length === queries && at >= 0 ? at : queries - 1; };
/// The largest difference between the weights that the page computes and those of the engine, over all heads of all layers.
async function difference(model) {
  const input = { ...(model.inputs.text ? { text: textFor(model) } : {}), ...(model.inputs.image ? { image: picture(model.image) } : {}) };
  const trace = await post('traces', { model: model.id, ...input });
  let worst = 0, heads = 0;
  for (const a of trace.attentions) {
    const queries = [0, Math.min(256, a.queries)], keys = [0, Math.min(256, a.keys)];
    for (let layer = 0; layer < a.layers; ++layer) {
      for (let head = 0; head < a.heads; ++head, ++heads) {
        const place = { kind: a.kind, layer, head };
        const h = headNumbers(await post(`traces/${trace.id}/head`, { ...place, queries, keys }), a.keys);
        const tile = tensor((await post(`traces/${trace.id}/tile`, { ...place, what: 'weights', level: 0, row: 0, column: 0 })).values);
        for (let r = 0; r < h.queries; ++r) worst = Math.max(worst, largestDifference(rowSteps(h, r).weights, tile.data.subarray(r * tile.shape[1], (r + 1) * tile.shape[1])));
      }
      await post(`traces/${trace.id}/steps`, { kind: a.kind, layer, head: 0, query: lastOf(trace.sides[a.query_side], a.queries) });
    }
  }
  if (!(worst <= kBar)) throw new Error(`the largest difference is ${worst}`);
  return { worst, heads };
}

const { models } = await (await fetch(`${url}/heed/v1/models`)).json();
const shown = []; // models that have heads to show
let worst = 0, heads = 0;
for (const model of models) {
  try {
    const found = await difference(model);
    if (!found.heads && model.model_type === 'fnet') console.log(`[ SKIPPED ] ${model.id}: it has no attention`), ++count.skipped;
    else if (!found.heads) throw new Error('no head is shown');
    else {
      ++count.passed;
      shown.push(model);
      worst = Math.max(worst, found.worst);
      heads += found.heads;
    }
  } catch (error) {
    failed(model.id, error.message);
  }
}
console.log(`            ${shown.length} models, ${heads} heads: the largest difference between the page's weights and the engine's is ${worst.toExponential(1)}`);

const byType = new Map(); // one of each model type, and of encoder-decoders one for each kind of answer
for (const model of shown) {
  const type = model.family === 'encoder-decoder' ? `${model.model_type} ${model.answers}` : model.model_type, best = byType.get(type);
  if (!best || (best.answers === 'embedding' && model.answers !== 'embedding')) byType.set(type, model);
}
const name = process.env.HEED_EXPLORER_BROWSER ?? 'chromium', context = { name, browser: await launch(name), url };
const left = [...byType.values()];
await Promise.all([0, 1].map(async () => {
  for (let model = left.shift(); model; model = left.shift()) {
    try {
      const page = await open(context, `/steps?m=${model.id}&x=${encodeURIComponent(textFor(model))}`);
      if (model.inputs.audio) {
        await page.evaluate(() => (location.hash = location.hash.replace('#/steps', '#/read')));
        await page.getByRole('button', { name: 'synthetic' }).click();
        await settle(page);
        await page.evaluate(() => (location.hash = location.hash.replace('#/read', '#/steps')));
        await settle(page);
      }
      const last = model.answers === 'embedding' ? 10 : 11; // vectors are no answer, which the page says in the last step
      for (let step = 1; step <= last; ++step) {
        const said = await page.locator('[data-testid=check]').textContent(), notes = await page.locator('section.content .note').allTextContents();
        if (!said.includes('✓') || notes.length) throw new Error(`step ${step}: ${said} ${notes}`);
        if (step < last) await page.keyboard.press(']');
        await settle(page);
      }
      await finish(context, page);
      ++count.passed;
    } catch (error) {
      failed(`${model.model_type} (${model.id})`, error.message.split('\n')[0]);
    }
  }
}));
await closeAll(context);
console.log(`            ${byType.size} model types through all eleven steps`);
console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed ? 1 : 0);
