import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { MOVES, NOTES, TASK_STATUSES } from '../../contract/moves';
import { en } from './en';
import { speaker } from './words';
import { zhCN } from './zh-CN';

const places = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort();
const keys = Object.keys(zhCN) as (keyof typeof zhCN)[];

test('both languages have the same keys with the same places to fill', () => {
  expect(Object.keys(en).sort()).toEqual([...keys].sort());
  expect(keys.filter((key) => String(places(zhCN[key])) !== String(places(en[key])))).toEqual([]);
});

test('nothing is left in the other language', () => {
  const chinese = /[\u4e00-\u9fff]/;
  expect(keys.filter((key) => chinese.test(en[key]) && key !== 'nav.language')).toEqual([]);
  expect(keys.filter((key) => !chinese.test(zhCN[key].replace(/\{\w+\}/g, '')))).toEqual([
    'nav.language',
    'event.fact',
    'actor.ADMIN',
    'actor.BUYER',
  ]);
});

test('every state and every event of a task has its word', () => {
  const { knows } = speaker('zh-CN');
  expect(TASK_STATUSES.filter((status) => !knows(status))).toEqual([]);
  expect([...Object.keys(MOVES), ...NOTES].filter((event) => !knows(`event.${event}`))).toEqual([]);
});

test('the views say only words that there are', () => {
  const folder = path.join(__dirname, '..', 'views');
  const { knows } = speaker('zh-CN');
  const unknown: string[] = [];
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.eta')) continue;
    const view = readFileSync(path.join(folder, file), 'utf8');
    for (const [, key = ''] of view.matchAll(/\bsay\('([^']+)'(?=[,)])/g))
      if (!knows(key)) unknown.push(`${file}: ${key}`);
    for (const [, key = ''] of view.matchAll(/'((?:nav|task_list|devices)\.\w+)'/g))
      if (!knows(key)) unknown.push(`${file}: ${key}`);
  }
  expect(unknown).toEqual([]);
});

test('a text that fills a place is never searched for places again', () => {
  expect(speaker('en').say('devices.edit_title', { label: '{label}$&' })).toBe('Device "{label}$&"');
});

test('a text that turns the direction of writing turns nothing but itself', () => {
  const label = '\u202ecba';
  expect(speaker('en').say('devices.edit_title', { label })).toBe('Device "\u2068\u202ecba\u2069"');
});
