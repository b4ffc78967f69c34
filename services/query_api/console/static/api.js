// Talks to the API, as every other client does.

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.sentence = body?.detail ? body.detail[0].toUpperCase() + body.detail.slice(1) : `The server answered ${status}.`;
    this.code = body?.code;
    this.body = body;
  }
}

const LAST = ["searchable", "deleted", "failed", "superseded"];
const away = () => new Problem(0, { detail: "the server can't be reached; is it running?" });
let signedOut = () => {};

/** Have `act` called when the session has ended. */
export function onSignedOut(act) {
  signedOut = act;
}

/** Return the path with those parameters that have a value. */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const each of [value].flat()) if (each !== "" && each !== null && each !== undefined) query.append(name, each);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Return the response, or throw the Problem. */
export async function request(method, path, { body, headers = {}, signal, keepalive } = {}) {
  const init = { method, headers: { Accept: "application/json", ...headers }, signal, keepalive };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["Content-Type"] ??= "application/json";
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw away();
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  if (response.status === 401) signedOut();
  throw new Problem(response.status, told);
}

/** Return what a GET gives. */
export async function get(path, params, options) {
  return (await request("GET", address(path, params), options)).json();
}

/** Return what a POST gives. */
export async function post(path, body, options = {}) {
  return (await request("POST", path, { ...options, body })).json();
}

/** Yield `{event, data}` of a response that is a stream of server-sent events. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      left = (left + value).replace(/\r\n?/g, "\n");
      const blocks = left.split("\n\n");
      left = blocks.pop();
      for (const block of blocks) {
        const found = { event: "message", data: "" };
        for (const line of block.split("\n")) {
          const [, name, text] = /^(event|data): ?(.*)$/.exec(line) ?? [];
          if (name === "event") found.event = text;
          else if (name === "data") found.data += (found.data ? "\n" : "") + text;
        }
        if (found.data) yield { event: found.event, data: JSON.parse(found.data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Watch a document come along: `seen` gets each step; the promise ends with the last one. `signal` stops it. */
export function watch(url, seen, signal) {
  return new Promise((resolve, reject) => {
    const source = new EventSource(url);
    const end = (act, value) => {
      source.close();
      act(value);
    };
    for (const step of ["received", "extracted", "embedding", ...LAST]) {
      source.addEventListener(step, (event) => {
        const told = JSON.parse(event.data);
        seen(told);
        if (LAST.includes(step)) end(resolve, told);
      });
    }
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) end(reject, away());
    };
    signal?.addEventListener("abort", () => end(reject, new DOMException("stopped", "AbortError")));
  });
}

/** Return where a document may be watched, from the headers of a 202. */
export function monitor(link) {
  return /<([^>]+)>;\s*rel="?monitor"?/.exec(link ?? "")?.[1];
}
