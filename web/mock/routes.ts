// Every route of the protocol for the tiny models, as one function from a request to a response.
import { encode } from '../src/lib/api/tensor';
import type { Candidate, Intervention, Kind, Models, Prediction, Trace, TraceRequest } from '../src/lib/api/types';
import { type Ran as Attention, biasOf, prefixOf, score, scoresRow, visible, weightsRow, whyScore } from './engine';
import { type Matrix, columns, dot, f32, layerNorm, linear, norm, rowOf, softmax } from './matrix';
import { type MockModel, type Ran, forward, greedyTarget, makeModels, patchTokens } from './models';
import { named, tokenize, vocabulary } from './tokenizer';
import { runRoutes } from './runs';
import { contribution, headFigures, pooled, rollout } from './summary';

export class MockError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly param?: string) { super(message); }
}
interface Stored { trace: Trace; ran: Ran; model: MockModel; request: TraceRequest }

export class MockServer {
  readonly models = makeModels();
  private traces = new Map<string, Stored>();
  private count = 0;

  /// GET and POST of everything but /generate.
  handle(method: string, path: string, body: any): unknown {
    if (path === '/heed/v1/models') return this.list();
    if (path.startsWith('/heed/v1/runs')) return runRoutes(method, path, body);
    if (path === '/heed/v1/tokenize') return { tokens: this.tokens(this.model(body.model), body).source };
    if (path === '/heed/v1/traces') return this.create(body);
    if (path === '/detokenize') return { content: (body.tokens as number[]).map((id) => vocabulary[id]).join(' ') };
    const parameters = path.match(/^\/heed\/v1\/models\/([^/]+)\/parameters?$/);
    if (parameters && body) return { name: body.name, shape: [48, 48], rows: body.rows, columns: body.columns, values: encode(Float32Array.from({ length: 48 * 48 }, (_, i) => Math.sin(i)), [48, 48]) };
    if (parameters) return { parameters: [{ name: 'weight', shape: [48, 48], dtype: 'f32' }] };
    const match = path.match(/^\/heed\/v1\/traces\/([^/]+)(?:\/(\w+))?$/);
    if (!match) throw new MockError(404, 'not_found', `no route ${path}`);
    const stored = this.traces.get(match[1]);
    if (!stored) throw new MockError(404, 'trace_gone', `trace ${match[1]} is gone`);
    if (!match[2]) return stored.trace;
    const route = (this as any)[`route_${match[2]}`];
    if (!route) throw new MockError(404, 'not_found', `no route ${path}`);
    return route.call(this, stored, body);
  }

  list(): Models {
    return { version: '1.0.0', protocol: 1, models: this.models.map((m) => m.info), runs: (runRoutes('GET', '/heed/v1/runs', null) as any).runs, start: {} };
  }
  model(id: string): MockModel {
    const found = this.models.find((m) => m.info.id === id || id.startsWith(`${m.info.id}@`));
    if (!found) throw new MockError(404, 'not_found', `no model '${id}'`, 'model');
    return found;
  }
  private tokens(model: MockModel, body: TraceRequest) {
    if (model.style === 'vit') return { source: patchTokens(model) };
    const source = tokenize(model.style, body.text ?? '', body.pair);
    if (!source.length) throw new MockError(400, 'invalid', 'the text has no tokens', 'text');
    if (model.style !== 'seq2seq') return { source };
    const target = body.target === undefined ? greedyTarget(model, source, 5) : [tokenize('seq2seq', '')[0], ...tokenize('gpt', body.target)];
    return { source, target };
  }
  private create(body: TraceRequest, changes: Intervention[] = body.interventions ?? []): Trace {
    const model = this.model(body.model);
    const tokens = this.tokens(model, body);
    const began = Date.now();
    const ran = forward(model, tokens, changes, (trace, hook) => this.traces.get(trace)?.ran.pass.hooks.get(hook), body.image);
    const attentions = model.info.attentions.map((a) => {
      const one = ran.pass.attentions.get(`${a.kind}.0`)!;
      const side = (kind: Kind, key: boolean) => (kind === 'decoder' || (kind === 'cross' && !key) ? 'target' as const : 'source' as const);
      return { kind: a.kind, layers: a.layers, heads: a.heads, queries: one.q.rows, keys: one.k.rows, query_side: side(a.kind, false), key_side: side(a.kind, true), causal: one.causal, offset: 0 };
    });
    const last = tokens.target ?? tokens.source;
    const mask = last.findIndex((t) => t.label === '[MASK]');
    const position = model.style === 'vit' ? -1 : mask >= 0 ? mask : last.length - 1;
    const id = `t${++this.count}`;
    const trace: Trace = {
      id, model: body.model, input: { text: body.text, pair: body.pair, target: body.target, image: body.image ? `data:image/png;base64,${body.image}` : undefined },
      sides: tokens, attentions, predictions_at: model.style === 'vit' ? [] : ran.logits.rows === last.length ? last.map((_, i) => i) : [position],
      prediction: this.predict({ ran, model }, position, body.top_k ?? 10),
      activations: [...ran.pass.hooks].map(([name, m]) => ({ name, shape: [m.rows, m.columns] })),
      interventions: changes, generated: model.style === 'seq2seq' && body.target === undefined, pass_seconds: (Date.now() - began) / 1000,
    };
    this.traces.set(id, { trace, ran, model, request: body });
    while (this.traces.size > 64) this.traces.delete(this.traces.keys().next().value!);
    return trace;
  }
  private logits(s: { ran: Ran }, position: number): Float64Array {
    return rowOf(s.ran.logits, s.ran.logits.rows === 1 ? 0 : position);
  }
  private candidates(labels: string[], logits: ArrayLike<number>, count: number, temperature = 1): Candidate[] {
    const p = softmax(Array.from(logits, (x) => x / temperature));
    const order = [...p.keys()].sort((a, b) => p[b] - p[a] || a - b).slice(0, count);
    return order.map((id) => ({ id, token: labels[id], logit: logits[id], probability: p[id] }));
  }
  private predict(s: { ran: Ran; model: MockModel }, position: number, count: number, temperature = 1): Prediction {
    return { position, candidates: this.candidates(s.model.labels, this.logits(s, position), count, temperature) };
  }
  private attention(s: Stored, body: any): Attention {
    const found = s.ran.pass.attentions.get(`${body.kind}.${body.layer}`);
    if (!found || !(body.head === undefined || (body.head >= -1 && body.head < found.stack.heads))) {
      throw new MockError(404, 'not_found', `no attention ${body.kind} ${body.layer}.${body.head}`);
    }
    return found;
  }

  route_predict(s: Stored, b: any) {
    const made = this.predict(s, b.position, b.top_k ?? 10, b.temperature ?? 1);
    return b.all_logits ? { ...made, logits: encode(Float32Array.from(this.logits(s, b.position)), [s.ran.logits.columns]) } : made;
  }
  route_heads(s: Stored, b: any) {
    const a = this.attention(s, b);
    return { kind: b.kind, layer: b.layer, ...headFigures(a, a.kind === 'cross' ? [] : (a.kind === 'decoder' ? s.ran.tokens.target! : s.ran.tokens.source).map((t) => t.id)) };
  }
  route_tile(s: Stored, b: any) {
    if (b.what === 'contribution') {
      const { values, shape } = contribution([...s.ran.pass.attentions.values()].filter((a) => a.kind === b.kind));
      return { ...b, rows: [0, shape[0]], columns: [0, shape[1]], rows_per_cell: 1, values: encode(values, shape) };
    }
    if (b.what === 'rollout') {
      const { values, n } = rollout([...s.ran.pass.attentions.values()].filter((a) => a.kind === b.kind));
      return { ...b, rows: [0, n], columns: [0, n], rows_per_cell: 1, values: encode(values, [n, n]) };
    }
    const a = this.attention(s, b);
    const size = 256 << b.level;
    const rows: [number, number] = [b.row * size, Math.min(a.q.rows, (b.row + 1) * size)];
    const keys: [number, number] = [b.column * size, Math.min(a.k.rows, (b.column + 1) * size)];
    if (rows[0] >= rows[1] || keys[0] >= keys[1]) throw new MockError(400, 'invalid', 'this tile lies outside the matrix', 'row');
    const { values, shape, perCell } = pooled(a, b.head, rows, keys, 1 << b.level, b.what);
    return { ...b, rows, columns: keys, rows_per_cell: perCell, values: encode(values, shape) };
  }
  route_rows(s: Stored, b: any) {
    const a = this.attention(s, b);
    const n = b.queries[1] - b.queries[0];
    const index = new Int32Array(n * b.top_k).fill(-1), weight = new Float32Array(n * b.top_k);
    for (let r = 0; r < n; ++r) {
      const w = weightsRow(a, b.head, b.queries[0] + r);
      [...w.keys()].filter((j) => w[j] > 0).sort((x, y) => w[y] - w[x] || x - y).slice(0, b.top_k).forEach((j, i) => {
        index[r * b.top_k + i] = j;
        weight[r * b.top_k + i] = w[j];
      });
    }
    return { queries: b.queries, index: encode(index, [n, b.top_k]), weight: encode(weight, [n, b.top_k]) };
  }
  route_head(s: Stored, b: any) {
    const a = this.attention(s, b);
    const d = a.stack.headDim, [q0, q1] = b.queries, [k0, k1] = b.keys;
    const part = (m: Matrix, from: number, to: number) => {
      const c = columns(m, b.head * d, (b.head + 1) * d);
      return encode(Float32Array.from(c.data.subarray(from * d, to * d)), [to - from, d]);
    };
    const bias = a.kind !== 'cross' && a.stack.relative ? new Float32Array((q1 - q0) * (k1 - k0)) : null;
    const mask = a.cut.size ? new Uint8Array((q1 - q0) * (k1 - k0)) : null;
    const lse = new Float32Array(q1 - q0);
    for (let i = q0; i < q1; ++i) {
      const row = scoresRow(a, b.head, i);
      let top = -Infinity;
      for (const x of row) top = Math.max(top, x);
      lse[i - q0] = top + Math.log(row.reduce((sum, x) => sum + Math.exp(x - top), 0));
      for (let j = k0; j < k1; ++j) {
        if (bias) bias[(i - q0) * (k1 - k0) + j - k0] = biasOf(a, b.head, i, j);
        if (mask) mask[(i - q0) * (k1 - k0) + j - k0] = visible(a, b.head, i, j) ? 1 : 0;
      }
    }
    return { ...b, scale: 1 / Math.sqrt(d), softcap: 0, causal: a.causal, offset: 0, window: null, q: part(a.q, q0, q1), k: part(a.k, k0, k1), v: part(a.v, k0, k1),
      z: part(a.z, q0, q1), lse: encode(lse, [q1 - q0]), bias: bias && encode(bias, [q1 - q0, k1 - k0]), mask: mask && encode(mask, [q1 - q0, k1 - k0]) };
  }
  route_steps(s: Stored, b: any) {
    const a = this.attention(s, b);
    const stack = a.stack, d = stack.headDim, hooks = s.ran.pass.hooks, prefix = prefixOf(stack.kind), block = `${prefix}blocks.${b.layer}`;
    const at = (name: string) => { const m = hooks.get(name); return m ? encode(Float32Array.from(rowOf(m, b.query)), [m.columns]) : null; };
    const cross = a.kind === 'cross';
    const wo = (h: number): Matrix => ({ rows: d, columns: a.weights.wo.columns, data: a.weights.wo.data.subarray(h * d * a.weights.wo.columns, (h + 1) * d * a.weights.wo.columns) });
    const head_norms = Float32Array.from({ length: stack.heads }, (_, h) => norm(linear({ rows: 1, columns: d, data: rowOf(a.z, b.query).slice(h * d, (h + 1) * d) }, wo(h)).data));
    const weights = weightsRow(a, b.head, b.query);
    const source_norms = Float32Array.from(weights, (w, j) => w * norm(linear({ rows: 1, columns: d, data: rowOf(a.v, j).slice(b.head * d, (b.head + 1) * d) }, wo(b.head)).data));
    const layer = stack.layers[b.layer];
    const pre = rowOf(hooks.get(`${block}.mlp.hook_pre`)!, b.query), post = rowOf(hooks.get(`${block}.mlp.hook_post`)!, b.query);
    const neurons = [...post.keys()].map((i) => ({ index: i, pre: pre[i], post: post[i], norm: Math.abs(post[i]) * norm(rowOf(layer.w2, i)) }))
      .sort((x, y) => y.norm - x.norm).slice(0, b.top_k ?? 12)
      .map((x) => {
        const effect = linear({ rows: 1, columns: layer.w2.columns, data: rowOf(layer.w2, x.index) }, s.model.head).data;
        const best = [...effect.keys()].sort((p, q) => (effect[q] - effect[p]) * Math.sign(x.post)).slice(0, 5);
        return { ...x, promotes: best.map((id) => ({ id, token: s.model.labels[id], value: effect[id] * x.post })) };
      });
    const stat = (name: string) => { const n = s.ran.pass.stats.get(name); return n ? { mean: n.mean[b.query], rstd: n.rstd[b.query] } : null; };
    const firstIn = hooks.get(`${prefix}blocks.0.hook_resid_pre`)!;
    const before = cross ? `${block}.hook_resid_mid` : `${block}.hook_resid_pre`;
    const normName = cross ? `${block}.ln_cross` : `${block}.ln1`;
    return { kind: b.kind, layer: b.layer, head: b.head, query: b.query,
      embed: at(`${prefix}hook_embed`), pos_embed: at(`${prefix}hook_pos_embed`), other_embed: null, embed_norm: !!stack.embedNorm,
      embed_sum: encode(Float32Array.from(rowOf(firstIn, b.query)), [firstIn.columns]),
      resid_pre: at(before), normalized: stack.preNorm ? at(`${normName}.hook_normalized`) : at(before),
      concat: encode(Float32Array.from(rowOf(a.z, b.query)), [a.z.columns]), head_norms: encode(head_norms, [stack.heads]), source_norms: encode(source_norms, [source_norms.length]),
      w_o: encode(f32(wo(b.head)), [d, a.weights.wo.columns]), attn_out: at(cross ? `${block}.hook_cross_attn_out` : `${block}.hook_attn_out`),
      resid_mid: cross ? addRows(at(before)!, at(`${block}.hook_cross_attn_out`)!) : at(`${block}.hook_resid_mid`), mlp_in: stack.preNorm ? at(`${block}.ln2.hook_normalized`) : at(`${block}.hook_resid_mid`),
      mlp_out: at(`${block}.hook_mlp_out`), resid_post: at(`${block}.hook_resid_post`), norm_stats: { attention: stat(normName), mlp: stat(`${block}.ln2`) },
      neurons, neurons_total: post.length, neurons_active: post.filter((x) => x > 0).length, pre_norm: stack.preNorm };
  }
  route_why(s: Stored, b: any) {
    const a = this.attention(s, b);
    const { queryParts, keyParts, values } = whyScore(a, b.head, b.query, b.key);
    const total = score(a, b.head, b.query, b.key), bias = biasOf(a, b.head, b.query, b.key);
    const sum = values.reduce((x, y) => x + y, 0);
    return { kind: b.kind, layer: b.layer, head: b.head, query: b.query, key: b.key, score: total, weight: weightsRow(a, b.head, b.query)[b.key], linearised: !a.stack.preNorm,
      query_parts: queryParts, key_parts: keyParts, values: encode(values, [queryParts.length, keyParts.length]), bias, remainder: total - sum - bias };
  }
  route_attribution(s: Stored, b: any) {
    const position = Math.max(b.position, 0);
    const direction = Float64Array.from({ length: s.model.head.rows }, (_, i) => {
      const row = rowOf(s.model.head, i);
      return row[b.token] - (b.against === undefined ? 0 : row[b.against]);
    });
    const parts = s.ran.pass.parts.get(s.ran.logitsKind)!.map((p) => ({ part: p.part, value: dot(rowOf(p.rows, position), direction) }));
    const logits = this.logits(s, position);
    const logit = logits[b.token] - (b.against === undefined ? 0 : logits[b.against]);
    return { position: b.position, token: b.token, against: b.against ?? null, logit, parts, remainder: logit - parts.reduce((x, p) => x + p.value, 0) };
  }
  route_lens(s: Stored, b: any) {
    const position = Math.max(b.position, 0), stack = s.model.stacks[s.model.stacks.length - 1], prefix = prefixOf(stack.kind);
    const rows: unknown[] = [];
    const add = (name: string, layer: number, part: string) => {
      const m = s.ran.pass.hooks.get(name);
      if (!m) return;
      const one: Matrix = { rows: 1, columns: m.columns, data: rowOf(m, position).slice() };
      const logits = linear(stack.finalNorm ? layerNorm(one, stack.finalNorm).y : one, s.model.head).data;
      const row: Record<string, unknown> = { name, layer, part, candidates: this.candidates(s.model.labels, logits, b.top_k ?? 5) };
      if (b.token !== undefined) Object.assign(row, { probability: softmax(logits)[b.token], rank: logits.filter((x) => x > logits[b.token]).length });
      rows.push(row);
    };
    add(`${prefix}blocks.0.hook_resid_pre`, -1, 'embed');
    stack.layers.forEach((_, l) => { add(`${prefix}blocks.${l}.hook_resid_mid`, l, 'attn'); add(`${prefix}blocks.${l}.hook_resid_post`, l, 'mlp'); });
    return { position: b.position, rows };
  }
  route_activation(s: Stored, b: any) {
    const m = s.ran.pass.hooks.get(b.name);
    if (!m) throw new MockError(404, 'not_found', `no hook ${b.name}`, 'name');
    const rows = b.rows ?? [0, m.rows], cols = b.columns ?? [0, m.columns];
    const cut = columns(m, cols[0], cols[1]);
    return { name: b.name, shape: [m.rows, m.columns], rows, columns: cols, values: encode(Float32Array.from(cut.data.subarray(rows[0] * cut.columns, rows[1] * cut.columns)), [rows[1] - rows[0], cut.columns]) };
  }
  route_experiment(s: Stored, b: any) {
    const { interventions: _, ...request } = s.request;
    const target = s.trace.generated ? s.ran.tokens.target!.slice(1).map((t) => t.text).join('').trim() : request.target;
    const trace = this.create({ ...request, target }, [...s.trace.interventions, ...b.interventions]);
    const position = b.position ?? s.trace.prediction.position, count = b.top_k ?? 10;
    const changed = this.traces.get(trace.id)!;
    const before = this.predict(s, position, count), after = this.predict(changed, position, count);
    const p = softmax(this.logits(s, position)), q = softmax(this.logits(changed, position));
    const ids = [...new Set([...before.candidates, ...after.candidates].map((c) => c.id))];
    let kl = 0;
    p.forEach((x, i) => (kl += x > 0 ? x * Math.log(x / q[i]) : 0));
    return { before, after, merged: ids.map((id) => ({ id, token: s.model.labels[id], before: p[id], after: q[id] })), kl, trace: trace.id };
  }
  route_patching(s: Stored, b: any) {
    const corrupt = this.traces.get(b.corrupt);
    if (!corrupt) throw new MockError(404, 'trace_gone', `trace ${b.corrupt} is gone`, 'corrupt');
    const n = s.ran.tokens.source.length;
    if (corrupt.ran.tokens.source.length !== n) throw new MockError(400, 'invalid', `${n} tokens against ${corrupt.ran.tokens.source.length}`, 'corrupt');
    const position = b.position ?? s.trace.prediction.position;
    const metric = (ran: Ran) => { const l = this.logits({ ran }, position); return l[b.answer] - (b.against === undefined ? 0 : l[b.against]); };
    const place = `${prefixOf(b.kind)}blocks.${b.layer}`;
    const count = b.what === 'head' ? s.model.stacks[0].heads : n;
    const clean = metric(s.ran), bad = metric(corrupt.ran);
    const values = Float32Array.from({ length: count }, (_, i) => {
      const change: Intervention = b.what === 'head' ? { type: 'patch', hook: `${place}.attn.hook_z`, position: null, head: i, from: s.trace.id } : { type: 'patch', hook: `${place}.hook_${b.what}`, position: i, from: s.trace.id };
      const ran = forward(s.model, corrupt.ran.tokens, [change], (trace, hook) => this.traces.get(trace)?.ran.pass.hooks.get(hook), corrupt.request.image);
      return (metric(ran) - bad) / (clean - bad);
    });
    return { layer: b.layer, what: b.what, values: encode(values, [count]), clean, corrupt: bad };
  }

  /// The events of /generate, one after another.
  *generate(b: any): Generator<[string, unknown]> {
    const model = this.model(b.model);
    const began = Date.now(), count = b.max_tokens ?? 32, made: string[] = [];
    let text = b.text as string;
    for (let i = 0; i < count; ++i) {
      const tokens = model.style === 'seq2seq' ? { source: tokenize('seq2seq', b.text), target: greedyTarget(model, tokenize('seq2seq', b.text), i) } : { source: tokenize(model.style as 'gpt', text) };
      const ran = forward(model, tokens, [], () => undefined);
      const logits = rowOf(ran.logits, ran.logits.rows - 1).slice();
      logits.fill(-1e9, 0, 262);
      const candidates = this.candidates(model.labels, logits, b.candidates ?? 5);
      const kind = b.attention?.kind ?? (model.style === 'seq2seq' ? 'cross' : 'self');
      const layers = model.stacks[model.stacks.length - 1].layers.length;
      const a = ran.pass.attentions.get(`${kind}.${(b.attention?.layer ?? -1) < 0 ? layers - 1 : b.attention.layer}`)!;
      const mean = new Float64Array(a.k.rows);
      for (let h = 0; h < a.stack.heads; ++h) weightsRow(a, h, a.q.rows - 1).forEach((w, j) => (mean[j] += w / a.stack.heads));
      const top = [...mean.keys()].sort((x, y) => mean[y] - mean[x]).slice(0, 8).map((key) => ({ key, weight: mean[key] }));
      yield ['token', { index: i, token: named(candidates[0].id), probability: candidates[0].probability, candidates, attention: { kind, layer: a.layer, head: -1, keys: a.k.rows, top } }];
      if ((b.num_beams ?? 1) > 1) yield ['beams', { step: i, hypotheses: candidates.slice(0, b.num_beams).map((c, n) => ({ beam: n, parent: i === 0 ? -1 : 0, id: c.id, token: c.token, score: Math.log(c.probability) * (i + 1), finished: i === count - 1 })) }];
      made.push(candidates[0].token);
      text += ` ${candidates[0].token}`;
    }
    yield ['done', { text: made.join(' '), tokens: made.length, seconds: (Date.now() - began) / 1000, finish_reason: 'length' }];
  }
}

function addRows(a: { shape: number[]; data: string; dtype: any }, b: any) {
  const decode = (t: any) => new Float32Array(Uint8Array.from(atob(t.data), (c) => c.charCodeAt(0)).buffer);
  const x = decode(a), y = decode(b);
  return encode(x.map((v, i) => v + y[i]), a.shape);
}
