import { t } from '../i18n/index.svelte';
import { shown } from './format';

/// The name of a token in a sentence: a patch of an image says that it is one.
export function named(token: { id: number; label: string } | undefined): string {
  const [row, column] = token && token.id < 0 ? token.label.split(',') : [];
  return column ? t('read.patch', { row, column }) : shown(token?.label ?? '');
}
