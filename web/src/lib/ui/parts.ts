import type { Part } from '../api/types';
import { type Key, t } from '../i18n/index.svelte';

/// What a part of the residual stream is called in the page's language.
export function partName(part: Part): string {
  const stack = part.kind && part.kind !== 'self' ? `${t(`kind.${part.kind}` as Key)} ` : '';
  switch (part.type) {
    case 'head': return `${stack}${t('part.head', { layer: part.layer ?? 0, head: part.head ?? 0 })}`;
    case 'mlp': return `${stack}${t('part.mlp', { layer: part.layer ?? 0 })}`;
    case 'attention_bias': return `${stack}${t('part.attention_bias', { layer: part.layer ?? 0 })}`;
    case 'bias': return part.name;
    default: return t(`part.${part.type}` as Key);
  }
}
