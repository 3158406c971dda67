import type { StepName } from '../draw/step_stages';
import type { Key } from '../i18n/index.svelte';
import { session } from '../state/session.svelte';

/// What the rows of the chosen attention stand for: words, patches of an image, moments of a recording, or numbers.
export function rowsAre(): 'text' | 'image' | 'sound' | 'numbers' {
  const { inputs, answers } = session.model ?? {};
  if (answers === 'number') return 'numbers';
  return session.attention?.query_side === 'target' ? 'text' : inputs?.image ? 'image' : inputs?.audio ? 'sound' : 'text';
}
/// Whether the chosen attention is of a stage behind the first, whose patches are merged ones.
export function isMerged(): boolean {
  return /^stage[1-9]/.test(session.attention?.query_side ?? '');
}
/// Whether the decoder reads the source once more, as that of a classifier on BART does, and writes nothing.
export function readsSource(): boolean {
  const { answers } = session.model ?? {}, trace = session.trace;
  return !!trace?.sides.target && !trace.generated && !trace.input.target && ['class', 'answer-span', 'embedding'].includes(answers ?? '') && !session.model?.inputs.image;
}
/// The sentence that explains a step, as this model does it.
export function explanationOf(name: StepName): Key {
  const answers = session.model?.answers, a = session.attention, rows = rowsAre();
  if (name === 'embed' && rows !== 'text') return rows === 'numbers' ? 'explain.embedNumbers' : rows === 'sound' ? 'explain.embedSound' : isMerged() ? 'explain.embedMerged' : session.trace?.grids ? 'explain.embedPatch' : 'explain.embedImage';
  if (name === 'embed' && !['learned', 'sinusoidal'].includes(session.model?.position ?? '')) return 'explain.embedPlain';
  if (name === 'qkv' && a?.kind === 'cross') return readsSource() ? 'explain.qkvShifted' : 'explain.qkvCross';
  if (name === 'mask' && !a?.causal) return a?.kind === 'cross' ? 'explain.maskCross' : session.trace?.grids ? 'explain.maskWindows' : 'explain.maskNone';
  if (name === 'logits' && answers === 'class') return 'explain.logitsClass';
  if (name === 'logits' && answers === 'span') return 'explain.logitsSpan';
  if (name === 'logits' && answers === 'answer-span') return 'explain.logitsAnswer';
  if (name === 'logits' && answers === 'number') return 'explain.logitsNumber';
  if (name === 'logits' && answers === 'embedding') return 'explain.logitsNone';
  return `explain.${name}`;
}
