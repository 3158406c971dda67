import type { StepName } from '../draw/step_stages';
import type { Key } from '../i18n/index.svelte';
import { session } from '../state/session.svelte';

/// What the rows of the chosen attention stand for: words, patches of an image, or moments of a recording.
export function rowsAre(): 'text' | 'image' | 'sound' {
  const { inputs } = session.model ?? {};
  return session.attention?.query_side !== 'source' ? 'text' : inputs?.image ? 'image' : inputs?.audio ? 'sound' : 'text';
}
/// The sentence that explains a step, as this model does it.
export function explanationOf(name: StepName): Key {
  const answers = session.model?.answers, a = session.attention, rows = rowsAre();
  if (name === 'embed' && rows !== 'text') return rows === 'image' ? 'explain.embedImage' : 'explain.embedSound';
  if (name === 'embed' && !['learned', 'sinusoidal'].includes(session.model?.position ?? '')) return 'explain.embedPlain';
  if (name === 'qkv' && a?.kind === 'cross') return 'explain.qkvCross';
  if (name === 'mask' && !a?.causal) return a?.kind === 'cross' ? 'explain.maskCross' : 'explain.maskNone';
  if (name === 'logits' && answers === 'class') return 'explain.logitsClass';
  if (name === 'logits' && answers === 'span') return 'explain.logitsSpan';
  if (name === 'logits' && (answers === 'number' || answers === 'embedding')) return 'explain.logitsNone';
  return `explain.${name}`;
}
