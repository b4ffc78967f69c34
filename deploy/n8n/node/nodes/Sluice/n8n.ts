/** What this node uses of n8n, typed here: the package needs nothing of n8n to be built. */

export interface Item {
  json: Record<string, unknown>;
  binary?: Record<string, { fileName?: string; mimeType?: string; directory?: string }>;
  pairedItem?: { item: number };
}

export interface HttpOptions {
  method: string;
  url: string;
  qs?: Record<string, unknown>;
  headers?: Record<string, string>;
  body?: unknown;
  json?: boolean;
  timeout?: number;
  returnFullResponse: true;
  ignoreHttpStatusErrors: true;
}

export interface HttpReply {
  statusCode: number;
  headers: Record<string, string | undefined>;
  body: unknown;
}

export interface Executing {
  getInputData(): Item[];
  getNodeParameter(name: string, item: number, fallback?: unknown): unknown;
  getCredentials(name: string): Promise<Record<string, unknown>>;
  continueOnFail(): boolean;
  helpers: {
    httpRequestWithAuthentication: (this: Executing, credentials: string, options: HttpOptions) => Promise<HttpReply>;
    getBinaryDataBuffer(item: number, property: string): Promise<Buffer>;
  };
}
