import { en } from './en';
import { ko } from './ko';

export type Language = 'en' | 'ko';
export type Key = keyof typeof en;
export const catalogues: Record<Language, Record<Key, string>> = { en, ko };

function first(): Language {
  const stored = read('heed.language');
  if (stored === 'en' || stored === 'ko') return stored;
  return typeof navigator !== 'undefined' && navigator.language?.toLowerCase().startsWith('ko') ? 'ko' : 'en';
}
/// Storage is closed to pages opened from a file in some browsers.
export function read(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
export function remember(name: string, value: string) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The choice then lasts until the page is closed.
  }
}

export const locale = $state({ language: first() });

export function setLanguage(language: Language) {
  locale.language = language;
  remember('heed.language', language);
}
/// English has a singular: "1 head", but "2 + 1 layers".
const singular = (text: string) => text.replace(/(?<![+/]\s)(?<![\d.,+/])\b1 (layer|head|token|number|row|column|other)s\b/g, '1 $1');
/// The text of a key, with {name} replaced.
export function t(key: Key, values: Record<string, string | number> = {}, language: Language = locale.language): string {
  const text = catalogues[language][key].replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
  return language === 'en' ? singular(text) : text;
}
