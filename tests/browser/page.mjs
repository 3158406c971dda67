// What tests do with a page: open it, wait for it, save from it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { browserFor, check, scratch } from './support.mjs';

export const screens = ['read', 'map', 'steps', 'why', 'experiments', 'compare', 'train', 'lessons'];

export async function open(context, path = '/read', options = {}) {
  const { beforeLoad, ...rest } = options;
  const wishes = { viewport: { width: 1280, height: 900 }, locale: 'en-US', reducedMotion: 'reduce', ...rest };
  const page = await (await browserFor(context, wishes)).newPage(wishes);
  page.setDefaultTimeout(60_000);
  page.problems = [];
  page.requests = [];
  page.on('pageerror', (error) => page.problems.push(String(error)));
  // Pages that share a server drop each other's traces, which are made again: Chromium mentions the answer that said so.
  const dropped = (m) => /status of 404/.test(m.text()) && /\/traces\/t\d+\//.test(m.location().url);
  page.on('console', (m) => { if (m.type() === 'error' && !dropped(m)) page.problems.push(m.text()); });
  page.on('request', (r) => page.requests.push(r.url()));
  await beforeLoad?.(page);
  await page.goto(`${context.url}/#${path}`);
  await settle(page);
  return page;
}
let questions = 0;
/// Waits until the page awaits no answer and shows no skeleton in several frames in a row: an answer may ask for the next.
export async function settle(page) {
  await page.waitForFunction((question) => {
    const calm = document.querySelector('main') && !document.querySelector('.skeleton') && !Number(document.documentElement.dataset.waiting);
    if (globalThis.settling?.question !== question) globalThis.settling = { question, frames: 0 };
    globalThis.settling.frames = calm ? globalThis.settling.frames + 1 : 0;
    return globalThis.settling.frames >= 4;
  }, ++questions, { polling: 25 });
}
export async function finish(context, page) {
  const away = page.requests.filter((url) => !url.startsWith(context.url) && !/^(data|blob|file):/.test(url));
  check(away.length === 0, `requests left the machine: ${away}`);
  check(page.problems.length === 0, `the page reported: ${page.problems.join('\n')}`);
  await page.close();
}
export async function saved(page, click) {
  const path = (name) => join(scratch, `${Date.now()}-${name}`);
  if (page.context().browser().browserType().name().search(/firefox/i) < 0) {
    const [download] = await Promise.all([page.waitForEvent('download', { timeout: 180_000 }), click()]);
    const file = path(download.suggestedFilename());
    await download.saveAs(file);
    return file;
  }
  // WebDriver BiDi tells of no downloads: the link that would start one hands its content over instead.
  await page.evaluate(() => {
    globalThis.handed = new Promise((done) => {
      const create = URL.createObjectURL;
      let blob;
      URL.createObjectURL = (object) => create.call(URL, (blob = object));
      HTMLAnchorElement.prototype.click = async function () {
        const bytes = new Uint8Array(await blob.arrayBuffer());
        let text = '';
        for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
        done({ name: this.download, data: btoa(text) });
      };
    });
  });
  await click();
  const { name, data } = await page.evaluate(() => globalThis.handed);
  const file = path(name);
  writeFileSync(file, Buffer.from(data, 'base64'));
  return file;
}
/// Saves from a figure's menu: the last figure of the screen, if no other is named.
export const menu = async (page, item, nth = -1) => {
  await page.locator('figure details.export summary').nth(nth).click();
  return saved(page, () => page.locator('figure details.export[open] .menu button', { hasText: item }).first().click());
};
