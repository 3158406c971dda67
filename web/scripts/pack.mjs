// Joins Vite's script and style sheet into one HTML file and compresses it: dist/explorer.html.gz.
// With --verify nothing is written: the committed file must inflate to the same bytes.
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync, gunzipSync } from 'node:zlib';

const base = new URL('../dist/', import.meta.url);
const limit = 250_000;

// What is bundled stands under the MIT licence, which wants its notice in every copy.
const notices = [['Svelte', 'svelte/LICENSE.md'], ['uPlot', 'uplot/LICENSE'], ['clsx', 'clsx/license']]
  .map(([name, file]) => `${name}\n${readFileSync(new URL(`../node_modules/${file}`, base), 'utf8').trim()}`)
  .join('\n\n').replaceAll('--', '- -');

const script = readFileSync(new URL('parts/page.js', base), 'utf8').replaceAll('</script', '<\\/script');
const style = readFileSync(new URL('parts/page.css', base), 'utf8');
const page = readFileSync(new URL('parts/index.html', base), 'utf8')
  .replace(/\s*<script[^>]*src="[^"]*page\.js"[^>]*><\/script>/, '')
  .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
  .replace('<head>', () => `<!--\nheed, Apache License 2.0. This file contains:\n\n${notices}\n-->\n<head>`)
  .replace('</head>', () => `<style>${style}</style>\n</head>`)
  .replace('</body>', () => `<!--heed-data-->\n<script type="module">${script}</script>\n</body>`);
// The script builds the marker from two halves, so that it stands in the file exactly once.
if (page.split('<!--heed-data-->').length !== 2) throw new Error('the marker must stand in the page once');
if (/(?:src|href)="(?!data:|#|\{)/.test(page.replace(script, ''))) throw new Error('the page refers to another file');

const target = new URL('explorer.html.gz', base);
const packed = gzipSync(page, { level: 9 });
packed[9] = 255; // the header's operating system: unknown, the same everywhere
if (packed.length > limit) throw new Error(`the page is ${packed.length} bytes, more than ${limit}`);
if (process.argv.includes('--verify')) {
  const committed = gunzipSync(readFileSync(target)).toString('utf8');
  if (committed !== page) {
    console.error('web/dist/explorer.html.gz is not what the sources give: run `npm run build` in web/ and commit it');
    process.exit(1);
  }
  console.log(`explorer.html.gz matches its sources (${packed.length} bytes)`);
} else {
  writeFileSync(target, packed);
  console.log(`explorer.html.gz: ${packed.length} bytes, ${page.length} characters inflated`);
}
