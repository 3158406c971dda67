// A notebook in JupyterLab: cells run, and the picture of attention answers to the mouse and keyboard.
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { available, check, launch } from '../browser/support.mjs';

const { HEED_VENV: venv, HEED_SCREENSHOT: screenshot } = process.env;
if (!available.includes('chromium')) {
  console.log('no browser: apt-get install chromium');
  process.exit(77);
}

const code = [
  'import heed',
  'heed.manual_seed(1)',
  'block = heed.nn.TransformerBlock(16, 4)',
  'with heed.record() as recorded:',
  '    block(heed.randn(1, 5, 16))',
  'recorded.view(["The", "animal", "was", "too", "tired"])',
].join('\n');
const folder = mkdtempSync(join(tmpdir(), 'heed-jupyter-'));
const cell = { cell_type: 'code', id: 'a', execution_count: null, metadata: {}, outputs: [], source: code };
writeFileSync(join(folder, 'attention.ipynb'), JSON.stringify({
  cells: [cell], nbformat: 4, nbformat_minor: 5,
  metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
}));

const server = spawn(join(venv, 'bin/jupyter-lab'), ['--no-browser', '--allow-root', '--port=0', '--ServerApp.token=heed',
  '--ServerApp.password=', `--ServerApp.root_dir=${folder}`, '--LabApp.news_url=None', '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate'],
  { env: { ...process.env, JUPYTER_CONFIG_DIR: folder, JUPYTER_DATA_DIR: join(folder, 'data'), HOME: folder } });
const url = await new Promise((resolve, reject) => {
  let said = '';
  server.stderr.on('data', (piece) => {
    said += piece;
    const found = said.match(/http:\/\/(?:localhost|127\.0\.0\.1):(\d+)\/lab/);
    if (found) resolve(`http://127.0.0.1:${found[1]}`);
  });
  server.on('exit', () => reject(new Error(`JupyterLab ended: ${said}`)));
});

let failed = false;
const browser = await launch('chromium');
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  const outside = [];
  page.on('request', (request) => {
    if (!/^(http:\/\/127\.0\.0\.1|ws:\/\/127\.0\.0\.1|data:|blob:|about:)/.test(request.url())) outside.push(request.url());
  });
  await page.goto(`${url}/lab/tree/attention.ipynb?token=heed`);
  await page.locator('.jp-Notebook .jp-CodeCell').first().click({ timeout: 90000 });
  await page.locator('.jp-Notebook .cm-content').first().click();
  await page.keyboard.press('Shift+Enter');
  const frame = page.frameLocator('.jp-OutputArea-output iframe').first();
  const cells = frame.locator('svg rect, canvas, td').first();
  await cells.waitFor({ timeout: 90000 });
  const before = await frame.locator('body').innerText();
  if (screenshot) await page.screenshot({ path: screenshot });
  // Another head: what the page shows changes.
  const selects = frame.locator('select');
  check((await selects.count()) >= 1, 'there is no selector in the picture');
  const picture = () => frame.locator('body').evaluate((body) => body.innerHTML);
  const first = await picture();
  const count = await selects.count();
  let changed = false;
  for (let i = 0; i < count && !changed; ++i) {
    const options = await selects.nth(i).locator('option').count();
    if (options > 1) {
      await selects.nth(i).selectOption({ index: options - 1 });
      await page.waitForTimeout(200);
      changed = (await picture()) !== first;
    }
  }
  check(changed, 'choosing another head changes nothing');
  check(before.includes('animal') || first.includes('animal'), 'the tokens are not in the picture');
  check(outside.length === 0, `the page asked the network for ${outside.join(', ')}`);
  if (screenshot) await page.screenshot({ path: screenshot.replace('.png', '-head.png') });
  console.log('[      OK ] chromium: the picture of attention in JupyterLab');
} catch (error) {
  failed = true;
  console.log(`[  FAILED ] ${error.stack}`);
} finally {
  await browser.close();
  server.kill();
}
process.exit(failed ? 1 : 0);
