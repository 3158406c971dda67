// node explorer_tiles.mjs URL: opens about 32,768 tokens in every model of a server and times two tiles of every level, three times each.
const [url, filter = ''] = process.argv.slice(2);
const post = async (path, body) => {
  const answer = await fetch(`${url}/heed/v1/${path}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const made = await answer.json();
  if (!answer.ok) throw new Error(made.error.message);
  return made;
};
const { models } = await (await fetch(`${url}/heed/v1/models`)).json();
for (const model of models.filter((m) => new RegExp(filter).test(m.id))) {
  try {
    const { tokens } = await post('tokenize', { model: model.id, text: 'the film was good '.repeat(10) });
    const each = (await post('tokenize', { model: model.id, text: 'the film was good '.repeat(20) })).tokens.length - tokens.length; // of ten sentences
    const text = 'the film was good '.repeat(Math.floor((32768 * 10) / each));
    let began = performance.now();
    const trace = await post('traces', { model: model.id, text, ...(model.inputs.target ? { target: 'the film' } : {}) });
    const pass = performance.now() - began;
    const a = trace.attentions.find((x) => x.kind !== 'cross' && x.kind !== 'decoder') ?? trace.attentions[0];
    const top = Math.ceil(Math.log2(Math.max(a.queries, a.keys) / 256)), times = [];
    for (let level = top; level >= 0; --level) {
      const last = Math.ceil(a.queries / (256 << level)) - 1;
      for (const [row, column] of new Set([[last, 0], [last, last]])) {
        for (let n = 0; n < 3; ++n) {
          began = performance.now();
          await post(`traces/${trace.id}/tile`, { kind: a.kind, layer: 1, head: 1, what: 'weights', level, row, column });
          times.push({ level, ms: performance.now() - began });
        }
      }
    }
    const sorted = times.map((t) => t.ms).sort((x, y) => x - y), slow = times.reduce((x, y) => (y.ms > x.ms ? y : x));
    console.log(`${model.id.padEnd(11)} ${a.queries} tokens, pass ${(pass / 1000).toFixed(1)} s; ${times.length} tiles: median ${sorted[times.length >> 1].toFixed(0)} ms, slowest ${slow.ms.toFixed(0)} ms at level ${slow.level}`);
  } catch (error) {
    console.log(`${model.id.padEnd(11)} ${error.message}`);
  }
}
