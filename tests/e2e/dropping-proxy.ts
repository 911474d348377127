import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A connection to a server which can lose an answer after the server has given it. */
export class DroppingProxy {
  /** Answers lost so far. */
  dropped = 0;
  #armed?: string;

  private constructor(
    readonly baseUrl: string,
    readonly close: () => Promise<void>,
  ) {}

  static async start(target: string): Promise<DroppingProxy> {
    const { hostname, port } = new URL(target);
    const open = new Set<Socket>();
    const server = createServer((near) => {
      const far = connect(Number(port), hostname);
      for (const socket of [near, far]) {
        open.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          open.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      proxy.#join(near, far);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const proxy = new DroppingProxy(
      `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      () =>
        new Promise((resolve) => {
          server.close(() => resolve());
          for (const socket of open) socket.destroy();
        }),
    );
    return proxy;
  }

  /** Loses the answer to the next request whose path ends like this. */
  dropAnswerTo(pathEnd: string): void {
    this.#armed = pathEnd;
  }

  #join(near: Socket, far: Socket): void {
    let isLosing = false;
    near.on('data', (chunk) => {
      // A request's first chunk begins with its request line; HTTP/1.1 clients send one at a time.
      const path = /^[A-Z]+ ([^ ?]+)/.exec(chunk.toString('latin1'))?.[1];
      if (this.#armed !== undefined && path?.endsWith(this.#armed)) {
        this.#armed = undefined;
        isLosing = true;
      }
      far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (!isLosing) near.write(chunk);
      else {
        // The server answers after it has committed: what is lost here is nothing but the answer.
        this.dropped += 1;
        near.destroy();
      }
    });
  }
}
