// Builds the page from its sources into a folder of its own and compares it with the committed file.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const web = fileURLToPath(new URL('..', import.meta.url));
execFileSync(process.execPath, ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'error'], { cwd: web, stdio: 'inherit', env: { ...process.env, NODE_ENV: 'production' } });
execFileSync(process.execPath, ['scripts/pack.mjs', '--verify'], { cwd: web, stdio: 'inherit' });
