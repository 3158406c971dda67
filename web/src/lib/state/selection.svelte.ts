// What the person has chosen. All screens share it, and it lives in the URL's fragment: a link or a reload brings it back.

export const screens = ['read', 'map', 'steps', 'why', 'experiments', 'compare', 'train', 'lessons'] as const;
export type Screen = (typeof screens)[number];

export interface Selection {
  screen: Screen; model: string; text: string; pair: string; target: string;
  kind: string; layer: number; head: number; query: number; key: number;
  step: number; run: string; lesson: number;
  view: '' | 'model'; // of Map: all heads, or the whole model
  b: string; // of Compare: the other side, "model|kind|layer|head|text"
}
const empty: Selection = {
  screen: 'read', model: '', text: '', pair: '', target: '', kind: '', layer: 0, head: 0, query: -1, key: -1, step: 0, run: '', lesson: 0, view: '', b: '',
};
const names: Record<Exclude<keyof Selection, 'screen'>, string> = {
  model: 'm', text: 'x', pair: 'p', target: 'y', kind: 'a', layer: 'l', head: 'h', query: 'q', key: 'k', step: 's', run: 'r', lesson: 'n', view: 'v', b: 'b',
};

export const kLongestText = 2000;

export function toHash(selection: Selection): string {
  const query = new URLSearchParams();
  for (const [field, name] of Object.entries(names)) {
    const value = selection[field as keyof Selection];
    // A long text makes no good link; the tab keeps it until it is closed.
    if (typeof value === 'string' && value.length > kLongestText) continue;
    if (value !== empty[field as keyof Selection]) query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${selection.screen}${text ? `?${text}` : ''}`;
}
export function fromHash(hash: string): Selection {
  const [path, query] = hash.replace(/^#\/?/, '').split('?');
  const found: Selection = { ...empty };
  if ((screens as readonly string[]).includes(path)) found.screen = path as Screen;
  const values = new URLSearchParams(query ?? '');
  for (const [field, name] of Object.entries(names)) {
    const value = values.get(name);
    if (value === null) continue;
    const key = field as keyof Selection;
    if (typeof empty[key] === 'number') {
      const number = Number(value);
      if (Number.isInteger(number)) (found as unknown as Record<string, unknown>)[key] = number;
    } else {
      (found as unknown as Record<string, unknown>)[key] = value;
    }
  }
  return found;
}

export const sel: Selection = $state({ ...empty });

export function readLocation() {
  const found = fromHash(location.hash);
  if (!found.model) found.model = sel.model; // a link without a model is about the open one
  if (!found.text) {
    try {
      found.text = sel.text || (sessionStorage.getItem('heed.text') ?? '');
    } catch {
      found.text = sel.text;
    }
  }
  Object.assign(sel, found);
}
export function writeLocation() {
  if (sel.text.length > kLongestText) {
    try {
      sessionStorage.setItem('heed.text', sel.text);
    } catch {
      // The text is then typed again after a reload.
    }
  }
  const hash = toHash(sel);
  if (hash !== location.hash) {
    // A change of screen can be undone with the browser's Back; a change of cell is not worth an entry.
    const moved = fromHash(location.hash).screen !== sel.screen;
    history[moved ? 'pushState' : 'replaceState'](null, '', hash);
  }
}
