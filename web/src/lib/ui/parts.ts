import type { Part } from '../api/types';
import { type Key, t } from '../i18n/index.svelte';
import { isMerged } from './explain';
import { kindName } from './named';

/// What a part of the residual stream is called in the page's language. `merged`: its first part comes from the stage before;
/// `side`: the stack whose stream it is, where two streams meet.
export function partName(part: Part, merged = isMerged(), side = ''): string {
  const of = part.kind && part.kind !== 'self' ? part.kind : side, stack = of ? `${kindName(of)} ` : '';
  switch (part.type) {
    case 'embed': return `${stack}${t(merged ? 'part.merged' : 'part.embed')}`;
    case 'encoder': return t('part.encoder');
    case 'head': return `${stack}${t('part.head', { layer: part.layer ?? 0, head: part.head ?? 0 })}`;
    case 'mlp': return `${stack}${t('part.mlp', { layer: part.layer ?? 0 })}`;
    case 'other': return `${stack}${t('part.other', { layer: part.layer ?? 0 })}`;
    case 'attention_bias': return `${stack}${t('part.attention_bias', { layer: part.layer ?? 0 })}`;
    case 'bias': return /^b_[QKU]$/.test(part.name) ? t(`part.bias_${part.name[2]}` as Key) : part.name;
    case 'norm_bias': {
      // A layer has several norms: which one it is stands in the hook's name.
      const which = part.name.match(/\bln(1|2|_cross)\.b$/)?.[1] ?? '', layer = part.layer ?? 0;
      return `${stack}${which ? t(which === '_cross' ? 'part.norm_bias_cross' : 'part.norm_bias_layer', { layer, which }) : t('part.norm_bias')}`;
    }
    case 'rounding': return (part.layer ?? -1) >= 0 ? `${stack}${t('part.rounding_layer', { layer: part.layer! })}` : t('part.rounding');
    default: return `${stack}${t(`part.${part.type}` as Key)}`;
  }
}
