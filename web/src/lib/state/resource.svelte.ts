/// A value that is fetched when what it depends on changes. The last value stays while the next one loads, unless `scope`
/// changed: then it belongs to another input and goes.
export interface Resource<T> { readonly data: T | null; readonly error: unknown; readonly loading: boolean }

export function resource<T>(request: () => { scope: string; load: () => Promise<T> } | null): Resource<T> {
  let data = $state.raw<T | null>(null);
  let error = $state.raw<unknown>(null);
  let loading = $state(true);
  let scope = '';
  $effect(() => {
    const next = request();
    if (!next) {
      data = null;
      loading = false;
      return;
    }
    if (next.scope !== scope) {
      scope = next.scope;
      data = null;
    }
    let alive = true;
    loading = true;
    next.load().then(
      (value) => {
        if (!alive) return;
        data = value;
        error = null;
        loading = false;
      },
      (reason) => {
        if (!alive) return;
        data = null;
        error = reason;
        loading = false;
      },
    );
    return () => {
      alive = false;
    };
  });
  return {
    get data() { return data; },
    get error() { return error; },
    get loading() { return loading; },
  };
}
