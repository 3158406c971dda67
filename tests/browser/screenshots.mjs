// node tests/browser/screenshots.mjs URL FOLDER: pictures of every screen, in both languages, light and dark, wide and narrow.
import { mkdirSync } from 'node:fs';
import { launch } from './support.mjs';

const [url, folder, filter = ''] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await launch('chromium');
const screens = {
  read: '/read', 'read-seq2seq': '/read?m=tiny-seq2seq', 'read-vit': '/read?m=tiny-vit', map: '/map?l=1&h=0&q=8&k=2', steps0: '/steps?l=1', steps1: '/steps?l=1&s=1', steps2: '/steps?l=1&s=2', steps3: '/steps?l=1&s=3', steps4: '/steps?l=1&s=4',
  steps5: '/steps?l=1&s=5', steps6: '/steps?l=1&s=6', steps7: '/steps?l=1&s=7', steps8: '/steps?l=1&s=8', steps9: '/steps?l=1&s=9', steps10: '/steps?l=1&s=10',
  why: '/why?l=1&h=0&q=8&k=2', experiments: '/experiments?l=1&h=0', compare: '/compare?l=0&h=0', train: '/train', lessons: '/lessons?n=3&l=1',
};
for (const [name, path] of Object.entries(screens)) {
  if (filter && !new RegExp(filter).test(name)) continue;
  for (const [variant, options] of Object.entries({
    'en-light': { locale: 'en-US', colorScheme: 'light' }, 'ko-dark': { locale: 'ko-KR', colorScheme: 'dark' },
    'ko-phone': { locale: 'ko-KR', colorScheme: 'light', viewport: { width: 390, height: 844 } },
  })) {
    if (process.env.VARIANT && !variant.includes(process.env.VARIANT)) continue;
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
    page.on('pageerror', (error) => console.log(`${name} ${variant}: ${error}`));
    page.on('console', (m) => { if (m.type() === 'error') console.log(`${name} ${variant}: ${m.text()}`); });
    await page.goto(`${url}/#${path}`);
    await page.waitForLoadState('networkidle');
    await page.waitForTimeout(200);
    if (name === 'experiments') { await page.locator('.panel .button.primary').first().click(); await page.waitForTimeout(300); }
    await page.screenshot({ path: `${folder}/${name}-${variant}.png`, fullPage: true });
    await page.close();
  }
}
await browser.close();
