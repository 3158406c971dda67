import { encode } from '../src/lib/api/tensor';
import { gaussian } from './matrix';

const steps = [0, 100, 200, 400, 800, 1600];
const tokens = ['the', 'cat', 'sat', 'on', 'a', 'mat', '.', 'the'];
const run = { id: 'shapes', name: 'runs/tiny-gpt', task: 'lm', live: false, steps: 1600, total_steps: 2000, model: 'tiny-gpt' };

/// A training run made up from a formula: heads that grow from uniform to previous-token over the steps.
export function runRoutes(method: string, path: string, body: any): unknown {
  if (path === '/heed/v1/runs') return { runs: [run] };
  if (path.includes('/metrics')) {
    const after = Number(path.match(/after=(-?\d+)/)?.[1] ?? -1), next = gaussian(3), rows: object[] = [];
    for (let step = 0; step <= 1600; step += 10) {
      const loss = 1.6 + 2.9 * Math.exp(-step / 350) + 0.05 * next();
      rows.push({ step, loss, lr: 3e-4 * Math.min(1, step / 100), grad_norm: 0.8 + 0.1 * next(), tokens_per_second: 42000 + 500 * next(), seconds: step * 0.12 });
      if (step % 100 === 0) rows.push({ step, loss, val_loss: 1.7 + 2.8 * Math.exp(-step / 380), seconds: step * 0.12, tokens_per_second: 42000 });
    }
    return { run, rows: rows.filter((r: any) => r.step > after) };
  }
  if (path.endsWith('/samples')) {
    return { samples: steps.map((step, i) => ({ step, input: 'the cat', target: 'sat on a mat .', output: ['the the a a', 'cat the on a', 'sat a mat the', 'sat on the mat', 'sat on a mat', 'sat on a mat .'][i] })) };
  }
  if (path.endsWith('/checkpoints')) return { checkpoints: steps.slice(1).map((step) => ({ step, model: `tiny-gpt@${step}` })) };
  if (method === 'GET') return { steps, examples: [{ tokens, attentions: [{ kind: 'self', layers: 2, heads: 4 }] }] };
  const n = tokens.length, heads = 4, values = new Float32Array(steps.length * heads * n * n), entropy = new Float32Array(steps.length * heads);
  steps.forEach((step, s) => {
    for (let h = 0; h < heads; ++h) {
      const sharp = (step / 1600) * (2 + h + body.layer);
      for (let i = 0; i < n; ++i) {
        const row = Array.from({ length: i + 1 }, (_, j) => Math.exp(sharp * (h === 0 ? +(j === i - 1) * 2 : h === 1 ? +(j === 0) : h === 2 ? +(j === i) : Math.sin(j * 3 + i))));
        const sum = row.reduce((x, y) => x + y, 0);
        row.forEach((x, j) => {
          values[((s * heads + h) * n + i) * n + j] = x / sum;
          entropy[s * heads + h] -= ((x / sum) * Math.log2(x / sum)) / n;
        });
      }
    }
  });
  return { steps, rows: n, columns: n, values: encode(values, [steps.length, heads, n, n]), entropy: encode(entropy, [steps.length, heads]) };
}
