import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import pino from 'pino';
import { Refusal } from '../../src/contract/errors';
import { buildResponseCheck, type CheckedAnswer } from '../../src/http/response-check';
import { buildRouter, type Handlers } from '../../src/http/router';
import { entryOf, operationOf } from '../../src/testing/contract-samples';
import { contract } from '../../src/testing/start-test-app';

const check = buildResponseCheck(contract.document);
const health = operationOf(entryOf('getHealth'));
const getTask = operationOf(entryOf('getTask'));
const good: CheckedAnswer = {
  status: 200,
  type: 'application/json',
  headers: { 'x-request-id': 'x' },
  json: { status: 'ok' },
};
const problem = {
  type: 'urn:cmbuyer:problem:NOT_ACCEPTABLE',
  title: 't',
  status: 406,
  code: 'NOT_ACCEPTABLE',
  detail: 'd',
  instance: '/',
  request_id: 'x',
};
const refusal: CheckedAnswer = { ...good, status: 406, type: 'application/problem+json', json: problem };

it('lets good answers and listed problems pass', () => {
  check(health, good);
  check(health, refusal);
});

it.each<[string, CheckedAnswer, RegExp]>([
  ['an undeclared status', { ...good, status: 201 }, /201 is not declared/],
  ['a missing header', { ...good, headers: {} }, /lacks X-Request-Id/],
  ['no body', { ...good, type: undefined, json: undefined }, /has no body/],
  ['another type', { ...good, type: 'text/html' }, /text\/html, which is not declared/],
  ['a missing property', { ...good, json: {} }, /must have required property/],
  ['a wrong value', { ...good, json: { status: 7 } }, /must be/],
  ['an undeclared property', { ...good, json: { status: 'ok', secret: 1 } }, /must NOT have additional/],
  ['an unlisted code', { ...refusal, json: { ...problem, code: 'LAST_ADMIN' } }, /does not list/],
  [
    'a problem with a member too many',
    { ...refusal, json: { ...problem, stack: 'x' } },
    /must NOT have additional/,
  ],
])('refuses %s', (_name, answer, message) => {
  expect(() => check(health, answer)).toThrow(message);
});

it('looks into what is nested', () => {
  const json = {
    ...problem,
    code: 'TASK_NOT_FOUND',
    status: 404,
    errors: [{ path: '/', message: 'm', value: 'x' }],
  };
  expect(() => check(getTask, { ...refusal, status: 404, json })).toThrow(/must NOT have additional/);
});

describe('in the router', () => {
  let server: Server;
  let answer: unknown;

  beforeAll(async () => {
    const never = () => Promise.reject(new Refusal('UNAUTHENTICATED'));
    const handlers = { getHealth: async () => answer } as unknown as Handlers;
    const router = await buildRouter({
      contract,
      handlers,
      authenticators: { device: never, admin: never, csrf: () => false },
      log: pino({ level: 'silent' }),
      checkResponse: check,
    });
    server = express().use(router).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const ask = () => fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/healthz`);

  it('an answer that keeps the contract is sent', async () => {
    answer = { status: 200, type: 'application/json', body: { status: 'ok' } };
    expect((await ask()).status).toBe(200);
  });

  it.each([
    ['a wrong value', { status: 200, type: 'application/json', body: { status: 7 } }],
    ['a property too many', { status: 200, type: 'application/json', body: { status: 'ok', secret: 'x' } }],
    ['another status', { status: 204 }],
    ['another type', { status: 200, type: 'text/plain', body: 'ok' }],
  ])('%s is a 500 instead', async (_name, wrong) => {
    answer = wrong;
    const { status, headers } = await ask();
    expect([status, headers.get('content-type')]).toEqual([500, 'application/problem+json']);
  });

  it('and so is a refusal that the operation does not list', async () => {
    answer = Promise.reject(new Refusal('LAST_ADMIN'));
    expect((await ask()).status).toBe(500);
  });
});
