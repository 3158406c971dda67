// node tests/browser/run.mjs [--url URL] [--filter TEXT] [--browser NAME] [--heed PROGRAM --folder MODELS]
// --heed and --folder: the program and the folder of the served models, to compare the page with `heed inspect`; --server: the
// server's process, to look at its memory. HEED_MEASURE=1: what was measured must keep the bars, on a machine without other work.
// Without --url the tests run against the mock server of web/mock. Last line: N passed, N failed, N skipped.
import { available, closeAll, launch, runAll } from './support.mjs';
import { loadMock, pageFile } from '../../web/scripts/mock.mjs';
import './explorer.mjs';
import './inputs.mjs';
import './links.mjs';
import './motion.mjs';
import './runs.mjs';
import './saved_files.mjs';
import './long_text.mjs';

const option = (name) => (process.argv.includes(`--${name}`) ? process.argv[process.argv.indexOf(`--${name}`) + 1] : '');
const total = { passed: 0, failed: 0, skipped: 0 };
let url = option('url');
let server = null;
if (!url) {
  const { startMock } = await loadMock();
  server = await startMock(0, pageFile);
  url = `http://127.0.0.1:${server.port}`;
}
const { models, runs } = await (await fetch(`${url}/heed/v1/models`)).json();
const first = (...families) => models.find((m) => families.includes(m.family))?.id;
const byFamily = {
  decoder: first('decoder'), encoder: models.find((m) => m.answers === 'fill-mask')?.id, seq2seq: first('encoder-decoder'), vision: first('vision'),
  captioner: models.find((m) => m.family === 'vision-encoder-decoder' && m.inputs.image)?.id, regions: models.find((m) => m.inputs.features)?.id, reader: models.find((m) => m.answers === 'span')?.id, quantised: models.find((m) => m.id.endsWith('q8'))?.id,
  speech: models.find((m) => m.inputs.audio)?.id,
};
const long = models.find((m) => m.id === 'long')?.id;
const present = Object.fromEntries(Object.entries(byFamily).filter(([, id]) => id));
for (const name of available) {
  if (option('browser') && option('browser') !== name) continue;
  let browser;
  try {
    browser = await launch(name);
  } catch (error) {
    console.log(`[ SKIPPED ] ${name}: ${String(error).split('\n')[0]}`);
    ++total.skipped;
    continue;
  }
  const context = { name, browser, url, mock: server !== null, heed: option('heed'), folder: option('folder'), models: present, long, runs: runs.map((r) => r.id), server: Number(option('server')) || 0 };
  const count = await runAll(context, option('filter'));
  for (const key of Object.keys(total)) total[key] += count[key];
  await closeAll(context);
}
server?.close();
if (!available.length) {
  console.log('[ SKIPPED ] no browser: apt-get install chromium firefox-esr');
  ++total.skipped;
}
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exit(total.failed ? 1 : 0);
