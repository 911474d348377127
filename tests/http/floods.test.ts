import { connect } from 'node:net';
import { allFacts } from '../../src/testing/all-facts';
import { useTestApp } from '../../src/testing/start-test-app';

const app = useTestApp();

/** Sends a head, then as much of a body as the server takes, until it answers and closes. */
function flood(head: string[], chunk: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(app().port, '127.0.0.1', () => {
      socket.write(`${head.join('\r\n')}\r\n\r\n`);
      const pour = () => {
        while (chunk !== '' && !socket.destroyed && socket.write(chunk));
      };
      socket.on('drain', pour);
      pour();
    });
    socket.on('data', (data) => {
      answer += data.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(answer));
  });
}

const CHUNK = `10000\r\n${'x'.repeat(0x10000)}\r\n`;

describe('a body without end', () => {
  it.each([
    ['/api/v1/device/login', 'application/json'],
    ['/api/v1/admin/login', 'application/json'],
    ['/admin/login', 'application/x-www-form-urlencoded'],
  ])('to %s is refused at its announced length', async (path, type) => {
    const before = await allFacts(app().database);
    const head = [`POST ${path} HTTP/1.1`, 'Host: x', `Content-Type: ${type}`, 'Content-Length: 10000000000'];
    expect(await flood(head, '')).toMatch(/^HTTP\/1\.1 413 /);
    expect(await allFacts(app().database)).toBe(before);
  });

  it.each([
    ['/api/v1/device/login', 'application/json'],
    ['/admin/login', 'application/x-www-form-urlencoded'],
  ])('to %s is cut off where nobody announced a length', async (path, type) => {
    const before = await allFacts(app().database);
    const head = [`POST ${path} HTTP/1.1`, 'Host: x', `Content-Type: ${type}`, 'Transfer-Encoding: chunked'];
    // Whether the answer outruns the reset of the connection is the network's affair; that it ends is ours.
    await flood(head, CHUNK);
    expect(await allFacts(app().database)).toBe(before);
  });
});
