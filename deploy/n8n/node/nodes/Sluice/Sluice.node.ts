import { Executing, HttpReply, Item } from './n8n';
import * as requests from './requests';
import { Ask } from './requests';

const shown = (resource: string, ...operation: string[]) => ({
  displayOptions: { show: { resource: [resource], ...(operation.length ? { operation } : {}) } },
});
const text = (displayName: string, name: string, more: object = {}) => ({ displayName, name, type: 'string', default: '', ...more });
const TOP_K = { displayName: 'Passages', name: 'topK', type: 'number', default: 5, typeOptions: { minValue: 1 } };
const FILTERS = {
  displayName: 'Filters',
  name: 'filters',
  type: 'json',
  default: '{}',
  description: 'Such as {"source": "handbook", "tags": ["2026"]}',
};

/** Documents of a Sluice server: put, get, delete, wait; search; ask. */
export class Sluice {
  description = {
    displayName: 'Sluice',
    name: 'sluice',
    icon: 'file:sluice.svg',
    group: ['transform'],
    version: 1,
    subtitle: '={{ $parameter.resource === "document" ? $parameter.operation + " document" : $parameter.resource }}',
    description: 'Put documents into Sluice, search them and ask them',
    defaults: { name: 'Sluice' },
    usableAsTool: true,
    inputs: ['main'],
    outputs: ['main'],
    credentials: [{ name: 'sluiceApi', required: true }],
    properties: [
      {
        displayName: 'Resource',
        name: 'resource',
        type: 'options',
        noDataExpression: true,
        default: 'document',
        options: [
          { name: 'Document', value: 'document' },
          { name: 'Search', value: 'search' },
          { name: 'Ask', value: 'ask' },
        ],
      },
      {
        displayName: 'Operation',
        name: 'operation',
        type: 'options',
        noDataExpression: true,
        default: 'put',
        ...shown('document'),
        options: [
          { name: 'Put', value: 'put', action: 'Add or replace a document' },
          { name: 'Get', value: 'get', action: 'Get a document' },
          { name: 'Delete', value: 'delete', action: 'Delete a document' },
          { name: 'Wait', value: 'wait', action: 'Wait until a document is processed' },
        ],
      },
      text('Source', 'source', { required: true, ...shown('document', 'put') }),
      text('Path', 'path', {
        required: true,
        description: 'With the source it names the document; the same name again replaces it',
        ...shown('document', 'put'),
      }),
      {
        displayName: 'Body',
        name: 'from',
        type: 'options',
        default: 'text',
        ...shown('document', 'put'),
        options: [
          { name: 'Text', value: 'text' },
          { name: 'File', value: 'binary' },
        ],
      },
      text('Text', 'text', { typeOptions: { rows: 5 }, displayOptions: { show: { resource: ['document'], operation: ['put'], from: ['text'] } } }),
      text('Input Field of the File', 'property', {
        default: 'data',
        displayOptions: { show: { resource: ['document'], operation: ['put'], from: ['binary'] } },
      }),
      {
        displayName: 'More Fields',
        name: 'fields',
        type: 'collection',
        placeholder: 'Add field',
        default: {},
        ...shown('document', 'put'),
        options: [
          text('Title', 'title'),
          text('Description', 'description'),
          text('Tags', 'tags', { description: 'Separated by commas' }),
          { displayName: 'Metadata', name: 'metadata', type: 'json', default: '{}' },
          text('Callback URL', 'callbackUrl', {
            placeholder: '={{ $execution.resumeUrl }}',
            description: 'Called when the document has ended; with a Wait node behind, the execution resumes then',
          }),
          text('Keep', 'keep', { description: 'Fields whose old value stays if it is left out, such as title,tags' }),
        ],
      },
      text('Document ID', 'documentId', { required: true, ...shown('document', 'get', 'delete', 'wait') }),
      text('Submission', 'submission', {
        description: 'Of a reply with the status accepted; without it, the newest one counts',
        ...shown('document', 'wait'),
      }),
      { displayName: 'Seconds to Wait', name: 'waitS', type: 'number', default: 120, ...shown('document', 'put', 'delete', 'wait') },
      text('Query', 'query', { required: true, ...shown('search') }),
      text('Question', 'question', { required: true, ...shown('ask') }),
      { ...TOP_K, displayOptions: { show: { resource: ['search', 'ask'] } } },
      { ...FILTERS, displayOptions: { show: { resource: ['search', 'ask'] } } },
    ],
  };

  async execute(this: Executing): Promise<Item[][]> {
    const found: Item[] = [];
    for (const [item] of this.getInputData().entries()) {
      try {
        for (const json of await run(this, item)) found.push({ json, pairedItem: { item } });
      } catch (error) {
        if (!this.continueOnFail()) throw error;
        found.push({ json: { error: (error as Error).message }, pairedItem: { item } });
      }
    }
    return [found];
  }
}

async function run(node: Executing, item: number): Promise<Array<Record<string, unknown>>> {
  const value = <T>(name: string, fallback?: T) => node.getNodeParameter(name, item, fallback) as T;
  const resource = value<string>('resource');
  if (resource === 'search') {
    const reply = await send(node, requests.search(value('query'), value('topK', 5), parsed(value('filters', {}))));
    return requests.objectOf(reply).results as Array<Record<string, unknown>>;
  }
  if (resource === 'ask') {
    const reply = await send(node, requests.ask(value('question'), value('topK', 5), parsed(value('filters', {}))));
    const { response, ragUsed, citations } = requests.objectOf(reply);
    return [{ answer: response, grounded: ragUsed, citations }];
  }
  switch (value<string>('operation')) {
    case 'get':
      return [requests.objectOf(await send(node, requests.get(value('documentId'))))];
    case 'delete':
      return [requests.objectOf(await send(node, requests.remove(value('documentId'), value('waitS', 120)), value('waitS', 120)))];
    case 'wait':
      return [await ended(node, value('documentId'), value('submission', ''), value('waitS', 120))];
    default:
      return [requests.objectOf(await send(node, await put(node, item), value('waitS', 120)))];
  }
}

async function put(node: Executing, item: number): Promise<Ask> {
  const value = <T>(name: string, fallback?: T) => node.getNodeParameter(name, item, fallback) as T;
  const [source, path, waitS] = [value<string>('source'), value<string>('path'), value<number>('waitS', 120)];
  const { metadata, ...rest } = value<Record<string, unknown>>('fields', {});
  const described = parsed(metadata ?? {});
  if (value<string>('from', 'text') === 'text') {
    const fields = { ...rest, ...(Object.keys(described).length ? { metadata: described } : {}) };
    return requests.putText(source, path, value<string>('text'), fields, waitS);
  }
  const property = value<string>('property', 'data');
  const binary = node.getInputData()[item]?.binary?.[property];
  if (!binary) throw new Error(`The item has no file in the field ${property}`);
  const content = await node.helpers.getBinaryDataBuffer(item, property);
  const file = { content, name: binary.fileName ?? path, type: binary.mimeType ?? 'application/octet-stream' };
  const fields = { ...rest, ...(Object.keys(described).length ? { metadata: JSON.stringify(described) } : {}) };
  return requests.putFile(source, path, file, fields, waitS);
}

/** Return the document once its submission has ended. */
async function ended(node: Executing, id: string, submission: string, waitS: number): Promise<Record<string, unknown>> {
  const until = Date.now() + 1000 * waitS;
  for (;;) {
    const document = requests.objectOf(await send(node, requests.get(id, submission)));
    if (document.status === 'failed') throw new Error(String(document.error ?? 'The document could not be processed'));
    if (document.status !== 'accepted') return document;
    if (Date.now() > until) throw new Error(`The document ${id} is still being processed after ${waitS} s`);
    await pause(1);
  }
}

/** Return the reply of a request that Sluice took; it is sent again when Sluice asks for that. */
async function send(node: Executing, ask: Ask, waitS = 0): Promise<HttpReply> {
  const { url } = await node.getCredentials('sluiceApi');
  for (let tries = 1; ; tries += 1) {
    const reply = await node.helpers.httpRequestWithAuthentication.call(node, 'sluiceApi', {
      method: ask.method,
      url: String(url).replace(/\/$/, '') + ask.path,
      qs: ask.qs,
      headers: { Accept: 'application/json', ...ask.headers },
      body: ask.body,
      json: !Buffer.isBuffer(ask.body),
      timeout: 1000 * (waitS + 300),
      returnFullResponse: true,
      ignoreHttpStatusErrors: true,
    });
    const seconds = requests.pauseAfter(reply, tries);
    if (seconds !== null) {
      await pause(seconds);
    } else if (reply.statusCode >= 300) {
      throw new Error(requests.refusal(reply));
    } else {
      return reply;
    }
  }
}

function parsed(value: unknown): Record<string, unknown> {
  if (typeof value !== 'string') return (value ?? {}) as Record<string, unknown>;
  return value.trim() ? (JSON.parse(value) as Record<string, unknown>) : {};
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
}
