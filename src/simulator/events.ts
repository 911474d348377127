/** What a simulated phone tells its watcher. Never holds a token, a key or a password. */
export type PhoneEvent = { phone: string } & (
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
  | { type: 'stopped' }
);

type Untold<E> = E extends PhoneEvent ? Omit<E, 'phone'> : never;
export type Tell = (event: Untold<PhoneEvent>) => void;
