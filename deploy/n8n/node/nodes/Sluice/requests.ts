/** What each operation asks of Sluice, and when a request is sent again. No I/O. */

import { HttpReply } from './n8n';

export interface Ask {
  method: string;
  path: string;
  qs?: Record<string, unknown>;
  headers?: Record<string, string>;
  body?: unknown;
}

/** Fields of a document that n8n leaves empty aren't sent: empty would remove what the document had. */
export function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== ''));
}

export function putText(source: string, path: string, text: string, fields: Record<string, unknown>, waitS: number): Ask {
  return { method: 'POST', path: '/rag/ingest', headers: { Prefer: `wait=${waitS}` }, body: { source, path, text, ...given(fields) } };
}

export function putFile(
  source: string,
  path: string,
  file: { content: Buffer; name: string; type: string },
  fields: Record<string, unknown>,
  waitS: number,
): Ask {
  const headers = { Prefer: `wait=${waitS}`, 'Content-Type': file.type, 'X-Filename': encodeURIComponent(file.name) };
  return { method: 'POST', path: '/rag/ingest/upload', qs: given({ source, path, ...fields }), headers, body: file.content };
}


export function get(id: string, submission?: string): Ask {
  return { method: 'GET', path: `/rag/documents/${encodeURIComponent(id)}`, qs: given({ submission }) };
}

export function remove(id: string, waitS: number): Ask {
  return { method: 'DELETE', path: `/rag/documents/${encodeURIComponent(id)}`, headers: { Prefer: `wait=${waitS}` } };
}

export function search(query: string, topK: number, filters: Record<string, unknown>): Ask {
  return { method: 'POST', path: '/rag/search', body: { query, topK, filters } };
}

export function ask(question: string, topK: number, filters: Record<string, unknown>): Ask {
  return { method: 'POST', path: '/chat', body: { message: question, useRag: true, ragTopK: topK, ragFilters: filters } };
}

const TRIES = 5;
const LONGEST_PAUSE_S = 60;

/** The seconds after which to ask again; null: not again. Sending a document again is always safe. */
export function pauseAfter(reply: HttpReply, tries: number): number | null {
  if ((reply.statusCode !== 429 && reply.statusCode !== 503) || tries >= TRIES) return null;
  const asked = reply.headers['retry-after'];
  if (asked === undefined || !/^\d+$/.test(asked)) return null; // it doesn't pass by waiting
  return Math.min(Number(asked), LONGEST_PAUSE_S);
}

/** The reply's object. n8n leaves JSON of some types as text. */
export function objectOf(reply: HttpReply): Record<string, unknown> {
  const body = Buffer.isBuffer(reply.body) ? reply.body.toString() : reply.body;
  if (typeof body !== 'string') return (body ?? {}) as Record<string, unknown>;
  try {
    return JSON.parse(body) as Record<string, unknown>;
  } catch {
    return { detail: body.slice(0, 500) };
  }
}

/** Sluice's own sentence on why it refused. */
export function refusal(reply: HttpReply): string {
  const body = objectOf(reply);
  return `Sluice replied ${reply.statusCode}: ${String(body.detail ?? body.message ?? 'no reason given')}`;
}
