import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows which answer it asked for
  json: any;
}

export interface Sent {
  method?: string;
  headers?: Record<string, string>;
  /** An object goes as JSON, a text as it stands. */
  body?: object | string;
  signal?: AbortSignal;
}

/** Requests to one server process over connections that stay open. */
export class Wire {
  private readonly agent = new Agent({ keepAlive: true });

  constructor(readonly address: string) {}

  send(target: string, { method, headers, body, signal }: Sent = {}): Promise<Answer> {
    const bytes = typeof body === 'object' ? JSON.stringify(body) : body;
    const given = {
      ...(bytes !== undefined && {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(bytes)),
      }),
      ...headers,
    };
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(
        this.address + target,
        {
          agent: this.agent,
          method: method ?? (bytes === undefined ? 'GET' : 'POST'),
          headers: given,
          signal,
        },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
          incoming.on('error', reject);
          incoming.on('end', () => {
            const text = Buffer.concat(chunks).toString('utf8');
            const isJson = /json/.test(incoming.headers['content-type'] ?? '');
            resolve({
              status: incoming.statusCode as number,
              headers: incoming.headers,
              json: isJson ? JSON.parse(text) : undefined,
            });
          });
        },
      );
      outgoing.on('error', reject);
      outgoing.end(bytes);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}

/** What came of a call, in one word: its status, or why it was refused. */
export function verdictOf({ status, json }: Answer): string {
  return status < 400 ? String(status) : String(json?.code);
}

export function isReplay({ headers }: Answer): boolean {
  return headers['idempotent-replayed'] === 'true';
}
