/** What n8n gives a node when it runs, over real HTTP. */

import { Executing, HttpOptions, HttpReply, Item } from '../nodes/Sluice/n8n';

export function executing(
  url: string,
  key: string,
  parameters: Record<string, unknown>,
  { items = [{ json: {} }], files = {}, goOn = false }: { items?: Item[]; files?: Record<string, Buffer>; goOn?: boolean } = {},
): Executing {
  return {
    getInputData: () => items,
    getNodeParameter: (name, _item, fallback) => parameters[name] ?? fallback,
    getCredentials: async () => ({ url, key }),
    continueOnFail: () => goOn,
    helpers: {
      getBinaryDataBuffer: async (_item, property) => files[property]!,
      httpRequestWithAuthentication: async (_name, options) => request(options, key),
    },
  };
}

async function request(options: HttpOptions, key: string): Promise<HttpReply> {
  const address = new URL(options.url);
  for (const [name, value] of Object.entries(options.qs ?? {})) address.searchParams.append(name, String(value));
  const headers: Record<string, string> = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const init: RequestInit = { method: options.method, headers };
  if (options.body !== undefined) {
    init.body = options.json ? JSON.stringify(options.body) : new Uint8Array(options.body as Buffer);
    headers['Content-Type'] ??= 'application/json';
  }
  const reply = await fetch(address, init);
  const body = await reply.text();
  return { statusCode: reply.status, headers: Object.fromEntries(reply.headers), body: body ? JSON.parse(body) : '' };
}
