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

// Runs the first cell. On a busy machine the kernel may not answer yet: JupyterLab then asks which kernel is meant, or
// drops the request, so the cell is run again until it has an output.
async function runFirstCell(page) {
  const output = page.locator('.jp-OutputArea-output iframe').first();
  for (let attempt = 1; ; ++attempt) {
    const accept = page.locator('.jp-Dialog .jp-mod-accept').first();
    if (await accept.isVisible()) await accept.click();
    await page.locator('.jp-Notebook .cm-content').first().click();
    await page.keyboard.press('Shift+Enter');
    try {
      await output.waitFor({ state: 'attached', timeout: 30000 });
      return;
    } catch (error) {
      if (attempt === 6) throw error;
    }
  }
}

let failed = false;
let page;
const browser = await launch('chromium');
try {
  page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  const outside = [];
  page.on('request', (request) => {
    if (!/^(http:\/\/127\.0\.0\.1|ws:\/\/127\.0\.0\.1|data:|blob:|about:)/.test(request.url())) outside.push(request.url());
  });
  await page.goto(`${url}/lab/tree/attention.ipynb?token=heed`);
  await page.locator('.jp-Notebook .jp-CodeCell').first().click({ timeout: 90000 });
  await runFirstCell(page);
  const frame = page.frameLocator('.jp-OutputArea-output iframe').first();
  // The page says what the last word looked at; choosing another word asks again.
  const said = frame.getByText('most attention went to').first();
  await said.waitFor({ timeout: 90000 });
  const first = await said.innerText();
  check(first.includes('tired'), `the last word is not the one that is shown: ${first}`);
  if (screenshot) await page.screenshot({ path: screenshot });
  await frame.getByText('The', { exact: true }).first().click();
  await frame.getByText('From “The”').first().waitFor({ timeout: 20000 });
  const second = await said.innerText();
  check(second !== first && second.includes('The'), 'choosing another word changes nothing');
  check(outside.length === 0, `the page asked the network for ${outside.join(', ')}`);
  if (screenshot) await page.screenshot({ path: screenshot.replace('.png', '-word.png') });
  console.log('[      OK ] chromium: the picture of attention in JupyterLab');
} catch (error) {
  failed = true;
  console.log(`[  FAILED ] ${error.stack}`);
  if (screenshot && page) await page.screenshot({ path: screenshot });
} finally {
  await browser.close();
  server.kill();
}
process.exit(failed ? 1 : 0);
