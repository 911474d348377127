import { en } from './en';
import { zhCN } from './zh-CN';

export const languages = ['zh-CN', 'en'] as const;
export type Language = (typeof languages)[number];
export type WordKey = keyof typeof zhCN;
export type Words = Record<WordKey, string>;
export type WordValues = Record<string, string | number>;

const dictionaries: Record<Language, Words> = { 'zh-CN': zhCN, en };

export interface Speaker {
  language: Language;
  /** The text of a key, its `{name}` places filled. */
  say(key: WordKey, values?: WordValues): string;
  /** The text of `prefix + value`, or the value as it is when the dictionary does not know it yet. */
  name(prefix: string, value: string): string;
  knows(key: string): boolean;
}

function fill(text: string, values: WordValues): string {
  return text.replace(/\{(\w+)\}/g, (place, key: string) =>
    Object.hasOwn(values, key) ? isolate(String(values[key])) : place,
  );
}

/** Keeps marks that turn the direction of writing from turning the sentence around them. */
function isolate(value: string): string {
  return /[\u202a-\u202e\u2066-\u2069]/.test(value) ? `\u2068${value}\u2069` : value;
}

/** Speaks one language's dictionary. */
export function speaker(language: Language): Speaker {
  const words = dictionaries[language];
  const knows = (key: string): key is WordKey => Object.hasOwn(words, key);
  return {
    language,
    knows,
    say: (key, values = {}) => fill(words[key], values),
    name: (prefix, value) => {
      const key = prefix + value;
      return knows(key) ? words[key] : value;
    },
  };
}
