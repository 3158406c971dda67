// node tests/browser/screenshots.mjs URL FOLDER [FILTER]: a sheet for every screen, with pictures of it in both languages, light
// and dark, and on a phone, for a person to look at. FILTER is a regular expression over the names of the sheets.
import { mkdirSync, readFileSync } from 'node:fs';
import { launch } from './support.mjs';
import { settle } from './page.mjs';

const [url, folder, filter = ''] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { models } = await (await fetch(`${url}/heed/v1/models`)).json();
const named = (test) => models.find(test)?.id;
const byFamily = {
  decoder: named((m) => m.family === 'decoder'), encoder: named((m) => m.answers === 'fill-mask'), seq2seq: named((m) => m.family === 'encoder-decoder'),
  vision: named((m) => m.family === 'vision'), captioner: named((m) => m.family === 'vision-encoder-decoder'), reader: named((m) => m.answers === 'span'), speech: named((m) => m.inputs.audio),
};
byFamily.decoder = process.env.HEED_SCREENSHOT_MODEL ?? byFamily.decoder;
const main = byFamily.decoder;
const screens = { map: `/map?m=${main}&l=1&h=0&q=4&k=2`, arcs: `/map?m=${main}&l=1&h=0&q=4`, why: `/why?m=${main}&l=1&h=0&q=4&k=2`, experiments: `/experiments?m=${main}&l=1&h=0`, compare: `/compare?m=${main}&l=0&h=0`, train: `/train?m=${main}`, lessons: `/lessons?n=3&m=${main}&l=1` };
for (let step = 0; step < 11; ++step) screens[`steps-${String(step + 1).padStart(2, '0')}`] = `/steps?m=${main}&l=1&s=${step}`;
for (const [family, id] of Object.entries(byFamily)) {
  if (!id) continue;
  screens[`read-${family}`] = `/read?m=${id}`;
  screens[`model-${family}`] = `/map?m=${id}&v=model&l=1`;
  if (family !== 'decoder') screens[`steps-mix-${family}`] = `/steps?m=${id}&l=1&s=6`;
}
const variants = {
  'en-light': { locale: 'en-US', colorScheme: 'light' }, 'ko-light': { locale: 'ko-KR', colorScheme: 'light' }, 'en-dark': { locale: 'en-US', colorScheme: 'dark' },
  'ko-dark': { locale: 'ko-KR', colorScheme: 'dark' }, 'ko-phone': { locale: 'ko-KR', colorScheme: 'light', viewport: { width: 390, height: 844 } },
};
const browser = await launch('chromium');
for (const [name, path] of Object.entries(screens)) {
  if (filter && !new RegExp(filter).test(name)) continue;
  const taken = [];
  for (const [variant, options] of Object.entries(variants)) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
    page.on('pageerror', (error) => console.log(`${name} ${variant}: ${error}`));
    page.on('console', (m) => { if (m.type() === 'error') console.log(`${name} ${variant}: ${m.text()}`); });
    await page.goto(`${url}/#${path}`);
    await page.waitForLoadState('networkidle');
    if (name.endsWith('speech')) {
      await page.evaluate(() => (location.hash = location.hash.replace(/^#\/\w+/, '#/read')));
      await page.locator('.panel button.button', { hasText: /synthetic|합성/ }).click();
      await settle(page);
      await page.evaluate((to) => (location.hash = `#${to}`), path);
    }
    await settle(page);
    if (name === 'experiments') await page.locator('.panel .button.primary').first().click();
    if (name === 'arcs') await page.locator('.segments label', { hasText: /Arcs|곡선/ }).click();
    await settle(page);
    const file = `${folder}/${name}-${variant}.png`;
    await page.screenshot({ path: file, fullPage: true });
    taken.push({ file, variant });
    await page.close();
  }
  // All of them on one sheet, the wide ones at 60 %.
  const sheet = await browser.newPage({ viewport: { width: 1960, height: 400 } });
  const image = ({ file, variant }) => `<figure><figcaption>${variant}</figcaption><img width="${variant.endsWith('phone') ? 390 : 768}" src="data:image/png;base64,${readFileSync(file).toString('base64')}"></figure>`;
  await sheet.setContent(`<style>body{margin:8px;background:#888;display:flex;gap:8px;align-items:start}main{display:grid;grid-template-columns:768px 768px;gap:8px}figure{margin:0}figcaption{font:12px sans-serif}</style><main>${taken.slice(0, 4).map(image).join('')}</main>${taken.slice(4).map(image).join('')}`);
  await sheet.screenshot({ path: `${folder}/sheet-${name}.png`, fullPage: true });
  await sheet.close();
  console.log(name);
}
await browser.close();
