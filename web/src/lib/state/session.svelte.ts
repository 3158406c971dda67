import { ApiError, Client, readEmbedded } from '../api/client';
import type { Grid, Model, Models, Side, Token, Trace, TraceAttention, TraceRequest } from '../api/types';
import { type Key, type Language, locale, read, remember, t } from '../i18n/index.svelte';
import type { ScaleMode, Theme } from '../draw/color';
import { exampleImage } from '../draw/example_image';
import { sel } from './selection.svelte';

const embedded = typeof document === 'undefined' ? null : readEmbedded();
export const api = new Client(embedded, '', () => locale.language);

function systemTheme(): Theme {
  return typeof matchMedia !== 'undefined' && matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/// What was loaded, and how it is shown.
class Session {
  models: Models | null = $state.raw(null);
  trace: Trace | null = $state.raw(null);
  image = $state(''); // base64 of the chosen picture's file
  audio = $state(''); // base64 of the chosen recording's file
  features = $state(''); // base64 of the chosen file of region features
  busy = $state(false);
  error: unknown = $state.raw(null);
  themeChoice: Theme | '' = $state((read('heed.theme') as Theme | null) ?? '');
  system: Theme = $state(systemTheme());
  theme: Theme = $derived(this.themeChoice || this.system);
  scale: ScaleMode = $state('absolute');
  hideSpecial = $state(false);
  private offered = ''; // the example that was put in for the person
  private requests = new WeakMap<Trace, TraceRequest>(); // what each trace was made from
  private again = new Map<string, Promise<Trace>>(); // traces that the server had dropped, by their first id
  private running = 0;

  model: Model | null = $derived.by(() => this.models?.models.find((m) => m.id === sel.model) ?? this.models?.models[0] ?? null);
  /// A model of speech has nothing to show before there is a recording.
  needsRecording = $derived(!api.offline && !!this.model?.inputs.audio && !this.audio);
  /// The attention that is selected, always one that the trace has.
  attention: TraceAttention | null = $derived.by(() => {
    const all = this.trace?.attentions ?? [];
    // Cross-attention says what an answer was made from; it comes first where there is one.
    return all.find((a) => a.kind === sel.kind) ?? all.find((a) => a.kind === 'cross') ?? all[0] ?? null;
  });
  layer = $derived(clamp(sel.layer, this.attention?.layers ?? 1));
  head = $derived(clamp(sel.head, this.attention?.heads ?? 1));
  query = $derived.by(() => {
    const a = this.attention;
    if (!a) return 0;
    const asked = Math.max(this.trace!.prediction.position, this.trace!.asked ?? -1);
    const fallback = a.query_side === (this.trace!.sides.target ? 'target' : 'source') && asked >= 0 ? asked : a.queries - 1;
    const seen = a.query_side !== 'target' && (this.model?.inputs.image || this.model?.inputs.audio);
    // Where no [CLS] stands for the whole image, the patch in its middle is shown first.
    const grid = this.gridOf(a.query_side), middle = grid && !grid.first ? Math.floor(grid.rows / 2) * grid.columns + Math.floor(grid.columns / 2) : 0;
    return sel.query < 0 ? clamp(seen ? middle : fallback, a.queries) : clamp(sel.query, a.queries);
  });
  queryTokens: Token[] = $derived(queryTokensOf(this.trace, this.attention));
  keyTokens: Token[] = $derived(this.tokensOf(this.attention?.key_side));

  /// Where the queries and the keys stand in the picture; null: in none.
  queryGrid: Grid | null = $derived(this.gridOf(this.attention?.query_side));
  keyGrid: Grid | null = $derived(this.gridOf(this.attention?.key_side));

  tokensOf(side: Side | undefined): Token[] {
    return this.trace?.sides[side ?? 'source'] ?? [];
  }
  gridOf(side: Side | undefined): Grid | null {
    return this.trace?.grids?.[side ?? ''] ?? (side === 'source' ? (this.model?.patch ?? null) : null);
  }
  /// The row of the residual stream where a position of the attention stands: windows may have more places than patches.
  rowAt(position: number): number {
    const grid = this.trace?.grids?.[this.attention?.query_side ?? ''];
    return grid ? Math.floor(position / grid.columns) * grid.patch_columns + (position % grid.columns) : position;
  }
  setTheme(theme: Theme) {
    this.themeChoice = theme;
    remember('heed.theme', theme);
  }

  async start() {
    const linked = location.hash !== ''; // before the selection is written there
    try {
      this.models = await api.get<Models>('/heed/v1/models');
      if (embedded) {
        const { trace, ...place } = embedded.start;
        if (!sel.model) Object.assign(sel, { model: trace.model, kind: place.kind ?? '', layer: place.layer ?? 0, head: place.head ?? 0, query: place.query ?? -1, key: place.key ?? -1 });
        this.trace = trace;
        return;
      }
      const { start, models, runs } = this.models;
      if (!sel.model) sel.model = start.model ?? models[0]?.id ?? '';
      if (!sel.text && start.text) sel.text = start.text;
      // A run that goes on is followed at once, and one that has no model yet.
      const followed = start.run ?? runs.find((run) => run.live)?.id;
      if (!sel.run && followed && !linked) Object.assign(sel, { run: followed, screen: 'train' });
      if (this.model) {
        this.fitText();
        if (!sel.text && this.model.inputs.text) await this.offer();
        await this.run();
      }
    } catch (error) {
      this.error = error;
    }
  }
  example(language: Language = locale.language): string {
    const m = this.model;
    if (!m) return '';
    const own = m.examples[language] ?? [];
    if (own.length) return own[0];
    const kind = m.answers === 'number' ? 'number' : m.family === 'image-text' ? 'match' : m.answers === 'fill-mask' ? 'mask' : m.answers === 'target-token' ? 'translate' : m.answers === 'class' ? 'class' : m.answers === 'answer-span' ? 'question' : 'text';
    return t(`example.${kind}` as Key, { mask: m.mask_token ?? '[MASK]' }, language);
  }
  /// The example in the page's language, or in the other one where the model's vocabulary lacks most of this one's words and
  /// fewer of the other's.
  async readableExample(): Promise<string> {
    const m = this.model!, own = this.example(), other = this.example(locale.language === 'ko' ? 'en' : 'ko');
    if (m.answers === 'number') return (this.offered = own); // there are no words to know
    const unknown = async (text: string): Promise<number> => {
      const made = await api.post<{ tokens: Token[] }>('/heed/v1/tokenize', { model: m.id, text }).catch(() => null);
      return made?.tokens.length ? made.tokens.filter((token) => token.special && token.text.trim() && token.text.trim() !== m.mask_token).length / made.tokens.length : 0;
    };
    const fraction = await unknown(own);
    this.offered = fraction > 0.5 && other !== own && (await unknown(other)) < fraction - 0.1 ? other : own;
    return this.offered;
  }

  /// Puts the example in: for a question, with the text that answers it.
  async offer() {
    sel.text = await this.readableExample();
    if (this.model?.answers === 'answer-span') sel.pair = t('example.passage', {}, sel.text === this.example('ko') ? 'ko' : 'en');
  }
  /// A text that came along from another model is none where numbers are read.
  fitText() {
    if (this.model?.answers === 'number' && /[^\d\s.,;+\-eE[\]]/.test(sel.text)) sel.text = this.offered = this.example();
  }
  /// Chooses another model. What was typed stays, where the model can read it.
  async choose(id: string) {
    const before = this.model?.mask_token, numbers = this.model?.answers === 'number';
    Object.assign(sel, { model: id, kind: '', layer: 0, head: 0, query: -1, key: -1, pair: '', target: '' });
    const m = this.model;
    if (m?.inputs.text) {
      if (numbers && m.answers !== 'number') sel.text = '';
      this.fitText();
      const masked = m.answers === 'fill-mask' ? sel.text.includes(m.mask_token ?? '[MASK]') : !before || !sel.text.includes(before);
      if (!sel.text || sel.text === this.offered || !masked) await this.offer();
    }
    await this.run();
  }
  /// The request that the selection stands for.
  current(): TraceRequest | null {
    const m = this.model;
    if (!m) return null;
    const request: TraceRequest = { model: m.id };
    if (m.inputs.text) request.text = sel.text;
    if (m.inputs.pair && sel.pair) request.pair = sel.pair;
    if (m.inputs.target && sel.target) request.target = sel.target;
    if (m.inputs.image) request.image = this.image || (this.image = exampleImage(m.image?.width ?? 64, m.image?.height ?? 64));
    if (m.inputs.audio && this.audio) request.audio = this.audio;
    if (m.inputs.features && this.features) request.features = this.features;
    return request;
  }
  /// Runs the model on what is typed and makes its trace the shown one.
  async run() {
    const request = this.current();
    if (!request || api.offline) return;
    if (this.needsRecording) {
      this.trace = null;
      return;
    }
    const turn = ++this.running;
    this.busy = true;
    this.error = null;
    try {
      const trace = await this.create(request);
      if (turn !== this.running) return;
      this.trace = trace;
    } catch (error) {
      if (turn !== this.running) return;
      this.error = error;
      if (this.trace?.model !== request.model) this.trace = null; // what another model did is no answer
    } finally {
      if (turn === this.running) this.busy = false;
    }
  }
  /// Writes a candidate behind the position it was predicted at, and runs the model again.
  async continueWith(position: number, id: number) {
    const m = this.model, target = m?.answers === 'target-token';
    const before = this.tokensOf(target ? 'target' : 'source').slice(0, position + 1), last = before.at(-1);
    if (!m || !last) return;
    const text = async (tokens: number[]) => (await api.post<{ content: string }>('/detokenize', { model: m.id, tokens })).content;
    try {
      // Behind the token before it: whether a space stands between the two is the tokenizer's matter.
      const alone = last.special ? '' : await text([last.id]), both = await text(last.special ? [id] : [last.id, id]);
      if (both.includes('\uFFFD')) throw new Error(t('read.piece'));
      const written = before.map((b) => b.text).join('') + (both.startsWith(alone) ? both.slice(alone.length) : both);
      Object.assign(sel, { query: -1, key: -1 }, target ? { target: written } : { text: written });
      await this.run();
    } catch (error) {
      this.error = error;
    }
  }
  async create(request: TraceRequest): Promise<Trace> {
    const trace = await api.post<Trace>('/heed/v1/traces', request, true);
    this.requests.set(trace, request);
    return trace;
  }
  /// A route of the shown trace. Where the server has dropped the trace, it is made again once.
  async ask<T>(route: string, body: object, trace = this.trace): Promise<T> {
    if (!trace) throw new Error('no trace');
    const known = this.again.get(trace.id);
    try {
      return await api.trace<T>((await known)?.id ?? trace.id, route, body);
    } catch (error) {
      const request = this.requests.get(trace);
      if (!(error instanceof ApiError) || error.code !== 'trace_gone' || !request) throw error;
      // Several questions may find it gone at once: it is made again once.
      if (this.again.get(trace.id) === known) this.again.set(trace.id, this.create(request));
      return api.trace<T>((await this.again.get(trace.id)!).id, route, body);
    }
  }
}
/// The tokens that an attention's queries stand at. A readout has one query: the word that the reader is asked about.
export function queryTokensOf(trace: Trace | null, a: TraceAttention | null): Token[] {
  if (!trace || !a) return [];
  const tokens = trace.sides[a.query_side] ?? [];
  return a.kind === 'readout' && (trace.asked ?? -1) >= 0 ? tokens.slice(trace.asked, trace.asked! + 1) : tokens;
}
function clamp(value: number, size: number): number {
  return Math.max(0, Math.min(value, size - 1));
}

export const session = new Session();
