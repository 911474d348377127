import type { Timings } from '../lifecycle/timings';
import type { ImageStore } from '../media/image-store';
import type { Database } from '../store/database';

/** What the doors need; built once in app.ts. */
export interface Services {
  database: Database;
  images: ImageStore;
  timings: Timings;
  /** Aborted when the server begins to close: nobody waits for a task any longer. */
  closing: AbortSignal;
  session_ttl_seconds: number;
  access_token_ttl_seconds: number;
}
