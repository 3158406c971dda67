// Starts the mock server: node scripts/mock.mjs [PORT]
import { build } from 'esbuild';
import { fileURLToPath } from 'node:url';

/// A module of the page or the mock, for Node.
export async function loadTypeScript(path) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(path, import.meta.url))],
    bundle: true, platform: 'node', format: 'esm', write: false, logLevel: 'error',
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);
}
export const loadMock = () => loadTypeScript('../mock/server.ts');
export const pageFile = fileURLToPath(new URL('../dist/explorer.html.gz', import.meta.url));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { startMock } = await loadMock();
  const { port } = await startMock(Number(process.argv[2] ?? 8765), pageFile);
  console.log(`listening on http://127.0.0.1:${port}`);
}
