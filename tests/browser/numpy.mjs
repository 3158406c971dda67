// Runs the NumPy programs that the page writes.
import { execFileSync } from 'node:child_process';
import { check } from './support.mjs';

/// A Python that has NumPy; undefined where there is none. HEED_PYTHON names one.
export const python = [process.env.HEED_PYTHON, 'python3', '/usr/bin/python3'].filter(Boolean).find((program) => {
  try {
    execFileSync(program, ['-c', 'import numpy'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});
/// Checks that the program's weights and their product with the values are those of the engine.
export function runNumpy(file) {
  const output = execFileSync(python, [file], { encoding: 'utf8' });
  const errors = [...output.matchAll(/largest difference.*?: ([\d.e-]+)/g)].map((m) => Number(m[1]));
  check(errors.length === 2 && errors[0] <= 1e-6 && errors[1] <= 1e-5, output);
}
