import type { Beams, Generated, GeneratedToken } from '../api/types';
import { sel } from './selection.svelte';
import { api, session } from './session.svelte';

/// What a model writes about the shown input, token by token or beam by beam as it comes.
export class Generation {
  made: GeneratedToken[] = $state.raw([]);
  tree: Beams[] = $state.raw([]);
  done: Generated | null = $state.raw(null);
  error = $state('');
  private control: AbortController | null = $state.raw(null);

  get running(): boolean {
    return this.control !== null;
  }
  stop() {
    this.control?.abort();
  }
  async start(options: { length: number; temperature?: number; beams?: number }) {
    const model = session.model;
    if (!model) return;
    this.stop();
    const control = (this.control = new AbortController());
    Object.assign(this, { made: [], tree: [], done: null, error: '' });
    const body: Record<string, unknown> = { model: model.id, text: sel.text, max_tokens: options.length };
    if (options.temperature) body.temperature = options.temperature;
    if ((options.beams ?? 1) > 1) body.num_beams = options.beams;
    if (model.inputs.image) body.image = session.image;
    if (model.inputs.target && model.inputs.pair && sel.pair) body.pair = sel.pair;
    if (model.inputs.features && session.features) body.features = session.features;
    try {
      await api.stream('/heed/v1/generate', body, (event, data) => {
        if (this.control !== control) return;
        if (event === 'token') this.made = [...this.made, data as GeneratedToken];
        else if (event === 'beams') this.tree = [...this.tree, data as Beams];
        else if (event === 'done') this.done = data as Generated;
      }, control.signal);
    } catch (reason) {
      if (!control.signal.aborted) this.error = reason instanceof Error ? reason.message : String(reason);
    } finally {
      if (this.control === control) this.control = null;
    }
  }
}
