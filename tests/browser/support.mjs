// What the browser tests share: Debian's browsers, a server to ask, and a small test runner.
import { createRequire } from 'node:module';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
export const playwright = require('playwright-core');
export const axePath = require.resolve('axe-core/axe.min.js');

const browsers = {
  chromium: { path: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] },
  firefox: { path: '/usr/bin/firefox-esr', args: [] },
};
export const available = Object.keys(browsers).filter((name) => existsSync(browsers[name].path));

export function launch(name) {
  const { path, args } = browsers[name];
  // Debian's Firefox speaks WebDriver BiDi; Playwright's own protocol is for its own builds.
  return (name === 'firefox' ? playwright._bidiFirefox : playwright[name]).launch({ executablePath: path, args, headless: true });
}
export const scratch = mkdtempSync(join(tmpdir(), 'heed-browser-'));

const cases = [];
export function test(name, run, options = {}) {
  cases.push({ name, run, ...options });
}
export function check(condition, message) {
  if (!condition) throw new Error(message);
}
/// Runs the registered tests whose name matches the regular expression `filter`, several pages at a time, those that measure
/// alone at the end; returns how many passed, failed and were skipped.
export async function runAll(context, filter = '', workers = 3) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  const wanted = cases.filter(({ name }) => new RegExp(filter).test(name));
  const shared = wanted.filter((c) => !c.alone);
  const work = async () => {
    for (let next = shared.shift(); next; next = shared.shift()) await runOne(context, next, count);
  };
  await Promise.all(Array.from({ length: workers }, work));
  for (const each of wanted.filter((c) => c.alone)) await runOne(context, each, count);
  return count;
}
async function runOne(context, { name, run }, count) {
  const began = Date.now();
  try {
    const outcome = await run(context);
    if (outcome === 'skip') {
      ++count.skipped;
      console.log(`[ SKIPPED ] ${context.name}: ${name}`);
      return;
    }
    ++count.passed;
    console.log(`[      OK ] ${context.name}: ${name} (${Date.now() - began} ms)`);
  } catch (error) {
    ++count.failed;
    console.log(`[  FAILED ] ${context.name}: ${name}\n${error.stack}`);
  }
}
