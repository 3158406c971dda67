// node scripts/mock.mjs [PORT]: the page with tiny models that are computed here.
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { MockError, MockServer } from './routes';

const policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'";

export function startMock(port: number, pageFile: string, delay = 0): Promise<{ port: number; close: () => void; mock: MockServer }> {
  const mock = new MockServer();
  const server = createServer(async (request, response) => {
    const path = request.url ?? '/';
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    try {
      if (!path.startsWith('/heed/') && path !== '/detokenize') {
        if (path !== '/' && !path.startsWith('/?')) return void response.writeHead(404).end();
        response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy });
        return void response.end(existsSync(pageFile) ? gunzipSync(readFileSync(pageFile)) : 'not built');
      }
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString('utf8')) : undefined;
      if (delay) await new Promise((done) => setTimeout(done, delay));
      if (path === '/heed/v1/generate') {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        for (const [event, data] of mock.generate(body)) {
          if (response.destroyed) return;
          response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
          await new Promise((done) => setTimeout(done, 30));
        }
        return void response.end();
      }
      send(200, mock.handle(request.method ?? 'GET', path, body));
    } catch (error) {
      const known = error instanceof MockError ? error : new MockError(500, 'internal', String((error as Error).stack));
      send(known.status, { error: { message: known.message, type: 'invalid_request_error', param: known.param ?? null, code: known.code } });
    }
  });
  return new Promise((ready) => server.listen(port, '127.0.0.1', () => ready({ port: (server.address() as { port: number }).port, close: () => server.close(), mock })));
}
