import assert from 'node:assert/strict';
import { createServer, IncomingMessage } from 'node:http';
import { AddressInfo } from 'node:net';
import { test } from 'node:test';

import { Sluice } from '../nodes/Sluice/Sluice.node';
import { executing } from './executing';

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}
type Reply = [status: number, body: object, headers?: Record<string, string>];

/** Run `act` against a server that gives these replies, one after the other; return what it was asked. */
async function against(replies: Reply[], act: (url: string) => Promise<void>): Promise<Seen[]> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    seen.push({ method: request.method!, url: request.url!, headers: request.headers, body });
    const [status, reply, headers] = replies.shift()!;
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(reply));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await act(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return seen;
}

const run = (url: string, parameters: Record<string, unknown>, more = {}) =>
  new Sluice().execute.call(executing(url, 'a-key', parameters, more));
const PUT = { resource: 'document', operation: 'put', source: 's', path: 'a.md', text: 'Tea.' };

test('a text is put with its fields, and empty ones are left out', async () => {
  const [seen] = await against([[200, { status: 'created', documentId: 'd' }]], async (url) => {
    const [items] = await run(url, { ...PUT, fields: { tags: 'a,b', title: '', metadata: '{"year": 1900}' } });
    assert.deepEqual(items, [{ json: { status: 'created', documentId: 'd' }, pairedItem: { item: 0 } }]);
  });
  assert.equal(seen!.headers.authorization, 'Bearer a-key');
  assert.equal(seen!.headers.prefer, 'wait=120');
  assert.deepEqual(JSON.parse(seen!.body), { source: 's', path: 'a.md', text: 'Tea.', tags: 'a,b', metadata: { year: 1900 } });
});

test('a file is put as it is, by its name and type', async () => {
  const items = [{ json: {}, binary: { data: { fileName: 'Tée.pdf', mimeType: 'application/pdf' } } }];
  const [seen] = await against([[200, { status: 'created' }]], async (url) => {
    await run(url, { ...PUT, from: 'binary' }, { items, files: { data: Buffer.from('%PDF') } });
  });
  assert.equal(seen!.url, '/rag/ingest/upload?source=s&path=a.md');
  assert.equal(seen!.headers['content-type'], 'application/pdf');
  assert.equal(seen!.headers['x-filename'], 'T%C3%A9e.pdf');
  assert.equal(seen!.body, '%PDF');
});

test('a busy server is asked again when it says so, and only then', async () => {
  const busy: Reply = [503, { detail: 'come again' }, { 'Retry-After': '0' }];
  const seen = await against([busy, busy, [200, { status: 'created' }]], async (url) => {
    await run(url, PUT);
  });
  assert.equal(seen.length, 3);
  const once = await against([[503, { detail: 'no model' }]], async (url) => {
    await assert.rejects(run(url, { resource: 'ask', question: 'What?' }), /Sluice replied 503: no model/);
  });
  assert.equal(once.length, 1);
});

test('a refusal has the sentence of the server, and can be passed on', async () => {
  const refused: Reply = [400, { detail: 'text: must not be empty' }];
  await against([refused, refused], async (url) => {
    await assert.rejects(run(url, PUT), /Sluice replied 400: text: must not be empty/);
    const [items] = await run(url, PUT, { goOn: true });
    assert.deepEqual(items![0]!.json, { error: 'Sluice replied 400: text: must not be empty' });
  });
});

test('waiting ends when the submission has', async () => {
  const seen = await against([[200, { status: 'accepted' }], [200, { status: 'created', chunkCount: 1 }]], async (url) => {
    const [items] = await run(url, { resource: 'document', operation: 'wait', documentId: 'd', submission: '1-2-3' });
    assert.equal(items![0]!.json.chunkCount, 1);
  });
  assert.deepEqual(seen.map((each) => each.url), ['/rag/documents/d?submission=1-2-3', '/rag/documents/d?submission=1-2-3']);
});

test('waiting for a document that fails is an error', async () => {
  await against([[200, { status: 'failed', error: 'a.pdf is damaged' }]], async (url) => {
    await assert.rejects(run(url, { resource: 'document', operation: 'wait', documentId: 'd' }), /a.pdf is damaged/);
  });
});

test('each hit of a search is an item', async () => {
  const [seen] = await against([[200, { results: [{ text: 'a' }, { text: 'b' }] }]], async (url) => {
    const [items] = await run(url, { resource: 'search', query: 'tea', topK: 2, filters: '{"source": "s"}' });
    assert.deepEqual(items!.map((item) => item.json.text), ['a', 'b']);
  });
  assert.deepEqual(JSON.parse(seen!.body), { query: 'tea', topK: 2, filters: { source: 's' } });
});

test('an id can not lead to another route', async () => {
  const [seen] = await against([[404, { detail: 'there is no such document' }]], async (url) => {
    await assert.rejects(run(url, { resource: 'document', operation: 'delete', documentId: '../../chat' }), /404/);
  });
  assert.equal(seen!.url, '/rag/documents/..%2F..%2Fchat');
});

test('every parameter that is read is declared', () => {
  const names = new Set(new Sluice().description.properties.map((each) => each.name));
  for (const name of 'resource operation source path from text property fields documentId submission waitS query question topK filters'.split(' ')) {
    assert.ok(names.has(name), name);
  }
});
