/** What happens to a simulated phone. */
export type Happening =
  | { type: 'signed-in' }
  | { type: 'not-ready'; reasons: string[] }
  | { type: 'no-task' }
  | { type: 'claimed'; taskId: string; title: string; generation: number; status: string }
  | { type: 'picture'; taskId: string; bytes: number; intact: boolean }
  | { type: 'started'; taskId: string }
  | { type: 'step'; taskId: string; step: string }
  | { type: 'fenced'; taskId: string; totalCents: number }
  | { type: 'pressed'; taskId: string }
  | { type: 'reported'; taskId: string; outcome: string; orderNo?: string; status: string }
  | { type: 'stopped-safely'; taskId: string; reason: string }
  | { type: 'trouble'; doing: string; reason: string }
  | { type: 'stopped' };

/** What the phone tells its watcher, with a sentence for people. Never holds a token, a key or a password. */
export type PhoneEvent = Happening & { label: string; text: string };

export type Tell = (happening: Happening) => void;

/** Says in a sentence what happened. */
export function describe(happening: Happening): string {
  switch (happening.type) {
    case 'signed-in':
      return 'signed in';
    case 'not-ready':
      return `not ready: ${happening.reasons.join(', ')}`;
    case 'no-task':
      return 'nothing to do';
    case 'claimed':
      return `claimed "${happening.title}" (claim ${happening.generation}, ${happening.status})`;
    case 'picture':
      return happening.intact ? `looked at the picture, ${happening.bytes} bytes` : 'the picture is damaged';
    case 'started':
      return 'started';
    case 'step':
      return happening.step;
    case 'fenced':
      return `may submit the order of ${(happening.totalCents / 100).toFixed(2)} yuan, once`;
    case 'pressed':
      return 'pressed "submit order"';
    case 'reported':
      return `reported ${[happening.outcome, happening.orderNo].filter(Boolean).join(' ')}: ${happening.status}`;
    case 'stopped-safely':
      return `stopped work on the task: ${happening.reason}`;
    case 'trouble':
      return `${happening.doing}: ${happening.reason}`;
    case 'stopped':
      return 'switched off';
  }
}
