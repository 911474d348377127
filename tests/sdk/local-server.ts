import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: string;
}

export interface LocalServer {
  baseUrl: string;
  seen: Seen[];
  close(): Promise<void>;
}

/** Starts a server whose answers the test writes, and which remembers every request it got whole. */
export async function startLocalServer(
  answer: (request: Seen, response: ServerResponse, count: number) => void,
): Promise<LocalServer> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = '', url = '', headers } = request;
    const entry = { method, url, headers, body: Buffer.concat(chunks).toString('utf8') };
    seen.push(entry);
    answer(entry, response, seen.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Answers JSON, or nothing for 204. */
export function answerJson(
  response: ServerResponse,
  status: number,
  body?: object,
  headers: Record<string, string> = {},
): void {
  const type = status >= 400 ? 'application/problem+json' : 'application/json';
  response.writeHead(status, { ...(body ? { 'content-type': type } : {}), ...headers });
  response.end(body ? JSON.stringify(body) : undefined);
}

/** Answers a problem document. */
export function answerProblem(
  response: ServerResponse,
  status: number,
  code: string,
  headers: Record<string, string> = {},
): void {
  const body = {
    type: `urn:cmbuyer:problem:${code}`,
    title: code,
    status,
    code,
    detail: `What to do about ${code}.`,
    instance: '/',
    request_id: 'request-1',
  };
  answerJson(response, status, body, { 'x-request-id': 'request-1', ...headers });
}
