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

/// `firefoxUserPrefs`: settings of about:config, for Firefox only.
export function launch(name, firefoxUserPrefs = {}) {
  const { path, args } = browsers[name];
  // Debian's Firefox speaks WebDriver BiDi; Playwright's own protocol is for its own builds.
  const options = { executablePath: path, args, headless: true };
  return name === 'firefox' ? playwright._bidiFirefox.launch({ ...options, firefoxUserPrefs }) : playwright[name].launch(options);
}
/// The browser for a page with these wishes. By WebDriver BiDi Firefox is not asked for dark colours or reduced motion: a
/// browser with these settings is started for each pair of wishes, once. closeAll() ends them.
export function browserFor(context, { reducedMotion, colorScheme = 'light' }) {
  if (context.name !== 'firefox') return context.browser;
  context.others ??= {};
  return (context.others[`${reducedMotion} ${colorScheme}`] ??= launch('firefox', {
    'ui.prefersReducedMotion': reducedMotion === 'reduce' ? 1 : 0,
    'privacy.baselineFingerprintingProtection': false, // it adds noise to what a test reads from a canvas
    'layout.css.prefers-color-scheme.content-override': colorScheme === 'dark' ? 0 : 1,
  }));
}
export async function closeAll(context) {
  for (const browser of [context.browser, ...Object.values(context.others ?? {})]) await (await browser).close();
}
export const scratch = mkdtempSync(join(tmpdir(), 'heed-browser-'));

const cases = [];
/// `options.alone`: no other page is open meanwhile; true, or the name of the one browser that needs it.
export function test(name, run, options = {}) {
  cases.push({ name, run, ...options });
}
export function check(condition, message) {
  if (!condition) throw new Error(message);
}
const kRepeated = 3; // more than that is the page's fault
/// Runs the registered tests whose name matches the regular expression `filter`, several pages at a time, those that measure
/// alone at the end; returns how many passed, failed and were skipped. Tests that fail among others (a browser that loses a
/// key, a machine that is busy) are repeated alone, three at most, and both outcomes are printed. What passes is named only
/// where a person looks.
export async function runAll(context, filter = '', workers = 3) {
  const count = { passed: 0, failed: 0, skipped: 0 };
  const wanted = cases.filter(({ name }) => new RegExp(filter).test(name));
  const alone = (c) => c.alone === true || c.alone === context.name;
  const shared = wanted.filter((c) => !alone(c));
  const failed = [];
  const work = async () => {
    for (let next = shared.shift(); next; next = shared.shift()) if (!(await runOne(context, next, count))) failed.push(next);
  };
  await Promise.all(Array.from({ length: workers }, work));
  for (const each of wanted.filter(alone)) if (!(await runOne(context, each, count))) failed.push(each);
  count.failed += failed.length;
  for (const each of failed.length <= kRepeated ? failed : []) {
    console.log(`[ REPEATED ] ${context.name}: ${each.name}`);
    if (await runOne(context, each, count)) --count.failed;
  }
  return count;
}
async function runOne(context, { name, run }, count) {
  const began = Date.now();
  try {
    const outcome = await run(context);
    if (outcome === 'skip') console.log(`[ SKIPPED ] ${context.name}: ${name}`);
    else if (process.stdout.isTTY) console.log(`[      OK ] ${context.name}: ${name} (${Date.now() - began} ms)`);
    ++count[outcome === 'skip' ? 'skipped' : 'passed'];
    return true;
  } catch (error) {
    console.log(`[  FAILED ] ${context.name}: ${name}\n${error.stack}`);
    return false;
  }
}
