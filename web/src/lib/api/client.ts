import type { Trace } from './types';

/// What the server said is wrong.
export class ApiError extends Error {
  constructor(message: string, readonly status: number, readonly code: string, readonly param?: string) {
    super(message);
  }
}

/// The data of an offline page.
export interface Embedded {
  version: number;
  language?: 'en' | 'ko';
  start: { trace: Trace; kind?: string; layer?: number; head?: number; query?: number; key?: number };
  responses: Record<string, unknown>;
}

/// JSON with sorted keys and without spaces: the name of a request in an offline page.
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).filter(([, v]) => v !== undefined);
    entries.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${canonical(v)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}
export function requestKey(method: string, path: string, body?: unknown): string {
  return body === undefined ? `${method} ${path}` : `${method} ${path} ${canonical(body)}`;
}

export function readEmbedded(): Embedded | null {
  const element = document.getElementById('heed-data');
  return element ? (JSON.parse(element.textContent ?? '') as Embedded) : null;
}

const kMostCached = 48 * 1024 * 1024; // characters of responses that are kept

/// Sends requests, or answers them from an offline page's data. Responses are kept by request.
export class Client {
  private cache = new Map<string, { value: Promise<unknown>; size: number }>();
  private cached = 0;
  private awaited = 0;

  constructor(readonly embedded: Embedded | null = null, readonly base = '', readonly language: () => string = () => 'en') {}

  get offline(): boolean {
    return this.embedded !== null;
  }

  get<T>(path: string, fresh = false): Promise<T> {
    return this.request<T>('GET', path, undefined, fresh);
  }
  post<T>(path: string, body: object, fresh = false): Promise<T> {
    return this.request<T>('POST', path, body, fresh);
  }
  trace<T>(id: string, route: string, body: object): Promise<T> {
    return this.post<T>(`/heed/v1/traces/${encodeURIComponent(id)}/${route}`, body);
  }

  private request<T>(method: string, path: string, body: unknown, fresh: boolean): Promise<T> {
    const key = requestKey(method, path, body);
    if (this.embedded) {
      const found = this.embedded.responses[key];
      return found === undefined
        ? Promise.reject(new ApiError(key, 404, 'not_in_file'))
        : Promise.resolve(found as T);
    }
    const known = this.cache.get(key);
    if (known && !fresh) {
      this.cache.delete(key); // to the end: used last
      this.cache.set(key, known);
      return known.value as Promise<T>;
    }
    const entry = { value: Promise.resolve() as Promise<unknown>, size: 0 };
    entry.value = this.send(method, path, body).then(
      ({ value, size }) => {
        entry.size = size;
        this.cached += size;
        this.trim();
        return value;
      },
      (error) => {
        if (this.cache.get(key) === entry) this.cache.delete(key);
        throw error;
      },
    );
    if (!fresh) this.cache.set(key, entry);
    return entry.value as Promise<T>;
  }

  private trim() {
    for (const [key, entry] of this.cache) {
      if (this.cached <= kMostCached) return;
      this.cached -= entry.size;
      this.cache.delete(key);
    }
  }

  /// How many answers are awaited, for whoever waits for the page to be done: tests, a script that takes pictures.
  private waiting(by: number) {
    this.awaited += by;
    if (typeof document !== 'undefined') document.documentElement.dataset.waiting = String(this.awaited);
  }
  private async send(method: string, path: string, body: unknown): Promise<{ value: unknown; size: number }> {
    this.waiting(1);
    try {
      return await this.fetched(method, path, body);
    } finally {
      this.waiting(-1);
    }
  }
  private async fetched(method: string, path: string, body: unknown): Promise<{ value: unknown; size: number }> {
    const response = await fetch(this.base + path, {
      method,
      headers: {
        'Accept-Language': this.language(),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw errorOf(response.status, text);
    return { value: JSON.parse(text), size: text.length };
  }

  /// Server-sent events of a POST; `signal` cancels.
  async stream(path: string, body: object, on: (event: string, data: unknown) => void, signal?: AbortSignal) {
    if (this.embedded) throw new ApiError(path, 404, 'not_in_file');
    const response = await fetch(this.base + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream', 'Accept-Language': this.language() },
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok || !response.body) throw errorOf(response.status, await response.text());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value.replace(/\r/g, '');
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        const message = parseEvent(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (!message) continue;
        if (message.event === 'error') throw errorOf(500, message.data);
        on(message.event, JSON.parse(message.data));
      }
    }
  }
}

export function parseEvent(block: string): { event: string; data: string } | null {
  let event = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
  }
  return data.length ? { event, data: data.join('\n') } : null;
}

function errorOf(status: number, text: string): ApiError {
  try {
    const { error } = JSON.parse(text);
    return new ApiError(String(error.message), status, String(error.code ?? ''), error.param ?? undefined);
  } catch {
    return new ApiError(text.slice(0, 200) || `HTTP ${status}`, status, '');
  }
}
