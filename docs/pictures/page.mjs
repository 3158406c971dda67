// node docs/pictures/page.mjs URL [FILTER]: the pictures of the page in README and lessons, from a server of SmolLM2 and
// quickstart's reader (the steps):
// heed explore smollm2=SmolLM2-135M-Instruct.gguf quickstart --port 8080 --no-browser
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { launch } from '../../tests/browser/support.mjs';
import { settle } from '../../tests/browser/page.mjs';

const [url, filter = ''] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const text = encodeURIComponent('The quick brown fox jumps over the lazy dog. The quick brown');
const cell = `m=smollm2&l=17&h=4&q=12&k=3&x=${text}`;
const pictures = {
  'explorer-read': { path: `/read?m=smollm2&x=${text}`, height: 720 },
  explorer: { path: `/why?${cell}`, height: 760 },
  '../tutorial/pictures/page-steps': { path: '/steps?m=quickstart&l=1&h=0&q=7&k=10&s=2', width: 1100, height: 820 },
  '../tutorial/pictures/page-experiments': { path: `/experiments?${cell}`, width: 1180, height: 640, apply: true },
};
const browser = await launch('chromium');
for (const [name, { path, width = 1280, height, apply }] of Object.entries(pictures)) {
  if (!name.includes(filter)) continue;
  for (const [locale, ending] of [['en-US', 'png'], ['ko-KR', 'ko.png']]) {
    const page = await browser.newPage({ viewport: { width, height }, locale, colorScheme: 'light', reducedMotion: 'reduce' });
    page.setDefaultTimeout(180_000);
    await page.goto(`${url}/#${path}`);
    await settle(page);
    if (apply) {
      await page.locator('.panel .button.primary').first().click();
      await page.locator('[data-testid=verdict]').waitFor();
      await settle(page);
    }
    await page.screenshot({ path: join(here, `${name}.${ending}`) });
    await page.close();
  }
}
await browser.close();
