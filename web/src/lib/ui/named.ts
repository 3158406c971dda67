import type { Kind } from '../api/types';
import { type Key, t } from '../i18n/index.svelte';
import { shown } from './format';

/// The name of a token in a sentence: a patch of an image says that it is one.
export function named(token: { id: number; label: string } | undefined): string {
  const place = token && token.id < 0 ? token.label.match(/^(\d+),(\d+)$/) : null;
  return place ? t('read.patch', { row: place[1], column: place[2] }) : shown(token?.label ?? '');
}
/// What an attention is called in the page's language.
export function kindName(kind: Kind): string {
  const stage = kind.match(/^stage(\d+)$/);
  return stage ? t('kind.stage', { stage: stage[1] }) : t(`kind.${kind}` as Key);
}
