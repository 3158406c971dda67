// node tests/browser/screenshots.mjs URL FOLDER [FILTER]: pictures of every screen and step, for a person to look at: both
// languages, light and dark, some on a phone; then a sheet of each screen with all of them. FILTER is a regular expression over
// their names. HEED_SCREENSHOT_MODEL names the decoder, HEED_SCREENSHOT_SOUND a recording. Says how much jumped while data came.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { launch } from './support.mjs';
import { settle } from './page.mjs';

const [url, folder, filter = ''] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { models } = await (await fetch(`${url}/heed/v1/models`)).json();
const named = (test) => models.find(test)?.id;
const byFamily = {
  decoder: process.env.HEED_SCREENSHOT_MODEL ?? named((m) => m.family === 'decoder'), encoder: named((m) => m.answers === 'fill-mask'), seq2seq: named((m) => m.family === 'encoder-decoder' && m.answers === 'target-token'),
  vision: named((m) => m.family === 'vision' && m.model_type !== 'swin'), captioner: named((m) => m.family === 'vision-encoder-decoder' && m.inputs.image), regions: named((m) => m.inputs.features), sparse: named((m) => m.model_type === 'longformer'), document: named((m) => m.inputs.target && m.inputs.pair), reader: named((m) => m.answers === 'span'), speech: named((m) => m.inputs.audio),
  stages: named((m) => m.model_type === 'swin'), regressor: named((m) => m.answers === 'number'), vectors: named((m) => m.answers === 'embedding'),
  shifted: named((m) => m.family === 'encoder-decoder' && m.answers === 'class'), answers: named((m) => m.answers === 'answer-span'), mpnet: named((m) => m.model_type === 'mpnet'),
};
const main = byFamily.decoder, cell = 'l=1&h=0&q=4&k=2';
const screens = { map: `/map?m=${main}&${cell}`, arcs: `/map?m=${main}&l=1&h=0&q=4`, why: `/why?m=${main}&${cell}`, experiments: `/experiments?m=${main}&l=1&h=0`, compare: `/compare?m=${main}&l=0&h=0`, train: `/train?m=${main}`, lessons: `/lessons?n=3&m=${main}&l=1` };
// The steps that a family does in its own way.
const own = { decoder: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], encoder: [1, 5, 9, 11], seq2seq: [2, 3, 4, 5, 7, 10, 11], vision: [1, 2, 3, 7, 10, 11], captioner: [1, 2, 7, 11], regions: [2, 7, 11], sparse: [3, 5, 7, 11], document: [2, 11], reader: [1, 5, 11], speech: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], shifted: [2, 5, 7, 11], answers: [2, 7, 11], mpnet: [1, 3, 5, 11], stages: [1, 2, 5, 7, 10, 11], regressor: [1, 2, 7, 10, 11], vectors: [1, 11] };
for (const [family, id] of Object.entries(byFamily)) {
  if (!id) continue;
  screens[`read-${family}`] = `/read?m=${id}`;
  screens[`model-${family}`] = `/map?m=${id}&v=model&l=1`;
  if (family !== 'decoder') screens[`map-${family}`] = `/map?m=${id}&l=1`;
  if (family !== 'decoder') screens[`why-${family}`] = `/why?m=${id}&l=1`;
  if (/stages|regressor|vectors|shifted|answers/.test(family)) screens[`experiments-${family}`] = `/experiments?m=${id}&l=1`;
  if (family === 'stages') screens['read-stages-1'] = `/read?m=${id}&a=stage1`;
  for (const step of own[family]) screens[`steps-${family}-${String(step).padStart(2, '0')}`] = `/steps?m=${id}&l=1&s=${step - 1}${['captioner', 'speech'].includes(family) && step === 1 ? '&a=encoder' : family === 'stages' ? '&a=stage1' : ''}`;
}
const variants = {
  'en-light': { locale: 'en-US', colorScheme: 'light' }, 'ko-light': { locale: 'ko-KR', colorScheme: 'light' }, 'en-dark': { locale: 'en-US', colorScheme: 'dark' },
  'ko-dark': { locale: 'ko-KR', colorScheme: 'dark' }, 'ko-phone': { locale: 'ko-KR', colorScheme: 'light', viewport: { width: 390, height: 844 } },
};
const onPhone = /^(read|model)-|^steps-decoder|^(map|arcs|why|experiments|compare|train|lessons)$|-01$|-11$/;
// A text that the model knows, in the language of the page where it has one.
const texts = { decoder: { en: 'The quick brown fox jumps over the lazy dog. The quick brown', ko: '고양이가 피곤해서 매트 위에 앉았다.' }, encoder: { en: 'the film was [MASK]' }, seq2seq: { en: 'The cat sat on the mat.', ko: '고양이가 매트 위에 앉았다.' } };
const textOf = (path, language) => {
  const id = path.match(/[?&]m=([^&]*)/)?.[1], known = models.find((m) => m.id === id)?.examples ?? {}, family = Object.keys(byFamily).find((f) => byFamily[f] === id);
  const text = known[language]?.[0] ?? texts[family]?.[language] ?? texts[family]?.en ?? '';
  return text ? `&x=${encodeURIComponent(text)}` : '';
};
const browser = await launch('chromium');

/// What a person does on a screen before there is all to see.
async function prepare(page, name) {
  if (name.endsWith('speech') || name.includes('-speech-')) {
    if (!page.heard) {
      const path = await page.evaluate(() => location.hash);
      await page.evaluate(() => (location.hash = location.hash.replace(/^#\/\w+/, '#/read')));
      const sound = process.env.HEED_SCREENSHOT_SOUND ?? '';
      if (existsSync(sound)) await page.locator('.drop input[type=file]').setInputFiles(sound);
      else await page.locator('.panel button.button', { hasText: /synthetic|합성/ }).click();
      await settle(page);
      await page.evaluate((to) => (location.hash = to), path);
      page.heard = true;
    }
  }
  await settle(page);
  if (/^experiments(-stages|-regressor|-shifted|-answers)?$/.test(name)) await page.locator('.panel .button.primary').first().click();
  if (name === 'arcs') await page.locator('.segments label', { hasText: /Arcs|곡선/ }).click();
  if (name === 'read-seq2seq' || name === 'read-decoder') await page.locator('#generate').locator('xpath=ancestor::section').locator('.button.primary').click();
  if (name.startsWith('steps-seq2seq-11')) await page.locator('#beams').locator('xpath=ancestor::section[1]').locator('button').last().click();
  if (name === 'lessons') await page.locator('aside .options button').first().click();
  await settle(page);
  if (/^read-(seq2seq|decoder)|steps-seq2seq-11/.test(name)) await page.waitForTimeout(1500);
}
for (const [variant, options] of Object.entries(variants)) {
  const page = await browser.newPage({ viewport: { width: 1180, height: 800 }, reducedMotion: 'reduce', ...options });
  page.setDefaultTimeout(120_000);
  let name = '';
  page.on('pageerror', (error) => console.log(`${name} ${variant}: ${error}`));
  page.on('console', (m) => { if (m.type() === 'error') console.log(`${name} ${variant}: ${m.text()}`); });
  await page.addInitScript(() => {
    globalThis.jumped = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) globalThis.jumped += e.value; })).observe({ type: 'layout-shift' });
  });
  await page.goto(`${url}/#/train`);
  await settle(page);
  for (const [screen, path] of Object.entries(screens)) {
    if (!new RegExp(filter).test(screen) || (variant.endsWith('phone') && !onPhone.test(screen))) continue;
    name = screen;
    await page.evaluate((to) => { globalThis.jumped = 0; location.hash = `#${to}`; }, path + textOf(path, variant.slice(0, 2)));
    try {
      await settle(page);
      const jumped = await page.evaluate(() => globalThis.jumped);
      if (jumped > 0.02) console.log(`${name} ${variant}: the layout shifted by ${jumped.toFixed(3)}`);
      await prepare(page, name);
      await page.screenshot({ path: `${folder}/${name}.${variant}.png`, fullPage: true });
    } catch (error) {
      console.log(`${name} ${variant}: ${String(error).split('\n')[0]}`);
    }
  }
  await page.close();
  console.log(variant);
}
if (!process.env.HEED_SCREENSHOT_NO_SHEETS) {
  const sheet = await browser.newPage({ viewport: { width: 1960, height: 400 } });
  for (const name of Object.keys(screens)) {
    const taken = Object.keys(variants).map((variant) => ({ variant, file: `${folder}/${name}.${variant}.png` })).filter(({ file }) => existsSync(file));
    const image = ({ file, variant }) => `<figure><figcaption>${variant}</figcaption><img width="${variant.endsWith('phone') ? 390 : 768}" src="data:image/png;base64,${readFileSync(file).toString('base64')}"></figure>`;
    if (!taken.length) continue;
    await sheet.setContent(`<style>body{margin:8px;background:#888;display:flex;gap:8px;align-items:start}main{display:grid;grid-template-columns:768px 768px;gap:8px}figure{margin:0}figcaption{font:12px sans-serif}</style><main>${taken.slice(0, 4).map(image).join('')}</main>${taken.slice(4).map(image).join('')}`);
    await sheet.screenshot({ path: `${folder}/sheet-${name}.png`, fullPage: true });
  }
}
await browser.close();
