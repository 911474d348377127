import type { CurrentTask, ErrorCode, FieldError, ReadinessReason } from './generated/types.gen';

/**
 * What a client does next. SIGN_IN: get a new credential. FIX: change the request. RETRY_SAME: send the very
 * same again later. REFRESH: read how things stand and decide anew. STOP: do nothing more about it.
 */
export type ClientAction = 'SIGN_IN' | 'FIX' | 'RETRY_SAME' | 'REFRESH' | 'STOP';

export interface CatalogueEntry {
  readonly status: number;
  readonly title: string;
  readonly client: ClientAction;
  /** Shown to anyone: a fixed sentence that never holds a value of the request. */
  readonly detail: string;
}

/**
 * Every code, in the order in which a request meets the checks. A code, once published, keeps its meaning
 * and its status.
 */
export const errorCatalogue = {
  NOT_FOUND: {
    status: 404,
    title: 'There is no such thing.',
    client: 'FIX',
    detail: 'Check the path and the ids in it.',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    title: 'The path does not know this method.',
    client: 'FIX',
    detail: 'Use one of the methods named in Allow.',
  },
  UNAUTHENTICATED: {
    status: 401,
    title: 'Sign in first.',
    client: 'SIGN_IN',
    detail: 'Sign in and send the request with the new credential.',
  },
  TOKEN_EXPIRED: {
    status: 401,
    title: 'The sign-in has expired.',
    client: 'SIGN_IN',
    detail: 'Sign in again and send the request with the new credential.',
  },
  TOKEN_REVOKED: {
    status: 401,
    title: 'The sign-in has been ended.',
    client: 'SIGN_IN',
    detail: 'It was signed out, or access was withdrawn. Sign in again, or ask an admin.',
  },
  FORBIDDEN: {
    status: 403,
    title: 'This is not allowed.',
    client: 'STOP',
    detail: 'The caller may not do this. Ask an admin.',
  },
  CSRF_FAILED: {
    status: 403,
    title: 'The CSRF token is missing or wrong.',
    client: 'FIX',
    detail: 'Read the CSRF token of the session again and send it with the request.',
  },
  NOT_ACCEPTABLE: {
    status: 406,
    title: 'The answer is not available in an accepted format.',
    client: 'FIX',
    detail: 'Accept the media type that the contract names.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    title: 'The body has the wrong media type.',
    client: 'FIX',
    detail: 'Send the media type that the contract names.',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    title: 'The request is too large.',
    client: 'FIX',
    detail: 'Send a smaller body.',
  },
  MALFORMED_JSON: {
    status: 400,
    title: 'The body is not JSON.',
    client: 'FIX',
    detail: 'Send one JSON value in UTF-8.',
  },
  INVALID_REQUEST: {
    status: 400,
    title: 'The request is not valid.',
    client: 'FIX',
    detail: 'Correct the fields named in errors and send the request again.',
  },
  INVALID_CURSOR: {
    status: 400,
    title: 'The cursor is not valid.',
    client: 'FIX',
    detail: 'Start again at the first page, with the same filters and sort.',
  },
  INVALID_RETURN_TO: {
    status: 400,
    title: 'The place to return to is not valid.',
    client: 'FIX',
    detail: 'Return only to a page under /admin/ of this server.',
  },
  INVALID_IMAGE: {
    status: 400,
    title: 'The picture cannot be used.',
    client: 'FIX',
    detail: 'Send a JPEG, PNG or WebP picture within the pixel limit.',
  },
  RATE_LIMITED: {
    status: 429,
    title: 'Too many attempts.',
    client: 'RETRY_SAME',
    detail: 'Wait as long as Retry-After says.',
  },
  INVALID_CREDENTIALS: {
    status: 401,
    title: 'The username or password is wrong.',
    client: 'FIX',
    detail: 'Check the username and the password.',
  },
  DEVICE_NOT_AUTHORIZED: {
    status: 403,
    title: 'The device is not authorised for this buyer.',
    client: 'STOP',
    detail: 'Ask an admin to authorise this device for this buyer.',
  },
  DEVICE_MISMATCH: {
    status: 403,
    title: 'The device is not the one that signed in.',
    client: 'FIX',
    detail: 'Send the device id that the token belongs to, or sign in again.',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 409,
    title: 'The key was used for another request.',
    client: 'FIX',
    detail: 'Send the first request unchanged, or make a new key for a new one.',
  },
  CLAIM_REPLAY_EXPIRED: {
    status: 409,
    title: 'The claim of this key is over.',
    client: 'REFRESH',
    detail: 'Claim anew with a new key and a new claim token.',
  },
  CLAIM_TOKEN_REUSED: {
    status: 409,
    title: 'The claim token was used before.',
    client: 'FIX',
    detail: 'Make a new claim token for every new claim.',
  },
  DEVICE_NOT_READY: {
    status: 409,
    title: 'The device is not ready.',
    client: 'REFRESH',
    detail: 'Put right what readiness_reasons names, send a device heartbeat, then send the same again.',
  },
  DEVICE_HAS_ACTIVE_TASK: {
    status: 409,
    title: 'The device has an unfinished task.',
    client: 'REFRESH',
    detail: 'Resume or finish the task named in active_task_id first.',
  },
  TASK_NOT_FOUND: {
    status: 404,
    title: 'There is no such task.',
    client: 'STOP',
    detail: 'Check the id. A device that worked on it stops.',
  },
  CLAIM_TOKEN_MISMATCH: {
    status: 403,
    title: 'The claim token does not belong to this task.',
    client: 'STOP',
    detail: 'Send the claim token that was stored before this task was claimed.',
  },
  CLAIM_NOT_CURRENT: {
    status: 409,
    title: 'The claim is closed.',
    client: 'STOP',
    detail: 'Stop working on this task at once.',
  },
  GENERATION_MISMATCH: {
    status: 409,
    title: 'The claim generation is another one.',
    client: 'REFRESH',
    detail: 'Read the task again.',
  },
  EXECUTION_MISMATCH: {
    status: 409,
    title: 'The execution is another one.',
    client: 'REFRESH',
    detail: 'Read the task again.',
  },
  SUBMISSION_EXISTS: {
    status: 409,
    title: 'An order may already exist.',
    client: 'STOP',
    detail: 'The task was submitted; it can only be resolved by a person.',
  },
  OWNERSHIP_CONFLICT: {
    status: 409,
    title: 'The facts of the task contradict each other.',
    client: 'STOP',
    detail: 'Nothing was changed. Ask the operator of this server to look at the task.',
  },
  AUTHORIZATION_MISMATCH: {
    status: 409,
    title: 'The authorization is another one.',
    client: 'REFRESH',
    detail: 'Read the task again and decide anew.',
  },
  ATTEMPT_MISMATCH: {
    status: 409,
    title: 'The attempt is another one.',
    client: 'REFRESH',
    detail: 'Read the task again and decide anew.',
  },
  SUBMISSION_MISMATCH: {
    status: 409,
    title: 'The submission is another one.',
    client: 'REFRESH',
    detail: 'Read the task again and decide anew.',
  },
  TASK_TERMINAL: {
    status: 409,
    title: 'The task is final.',
    client: 'STOP',
    detail: 'Nothing leaves a final state; duplicate the task to buy again.',
  },
  INVALID_TASK_STATE: {
    status: 409,
    title: 'The task is in another state.',
    client: 'REFRESH',
    detail: 'Read the task again and do what its state allows.',
  },
  LEASE_EXPIRED: {
    status: 409,
    title: 'The lease has run out.',
    client: 'STOP',
    detail: 'Stop acting on this task. What was submitted can still be reported.',
  },
  ACTIVE_LEASE: {
    status: 409,
    title: 'The device still holds the task.',
    client: 'REFRESH',
    detail: 'Wait until the lease has run out, or ask the device to stop.',
  },
  DEVICE_STOP_UNCONFIRMED: {
    status: 409,
    title: 'Nobody confirmed that the device stopped.',
    client: 'FIX',
    detail: 'Look at the phone, then confirm that it has stopped.',
  },
  CANCEL_REQUESTED: {
    status: 409,
    title: 'An admin asked to stop.',
    client: 'STOP',
    detail: 'Stop and acknowledge the cancel request.',
  },
  CANCEL_NOT_REQUESTED: {
    status: 409,
    title: 'Nobody asked to stop.',
    client: 'REFRESH',
    detail: 'Read the task again and go on with it.',
  },
  VERSION_CONFLICT: {
    status: 409,
    title: 'The task has changed.',
    client: 'REFRESH',
    detail: 'Read the task again and decide anew.',
  },
  AUTHORIZATION_EXPIRED: {
    status: 409,
    title: 'The permission to buy has expired.',
    client: 'STOP',
    detail: 'Do not order. Only a person can permit it again.',
  },
  PRICE_LIMIT_EXCEEDED: {
    status: 409,
    title: 'The price is over the limit.',
    client: 'STOP',
    detail: 'Do not order at this price.',
  },
  CONFIRMATION_REQUIRED: {
    status: 409,
    title: 'A person must confirm the offer first.',
    client: 'FIX',
    detail: 'Request a confirmation of exactly this offer.',
  },
  CONFIRMATION_STALE: {
    status: 409,
    title: 'The confirmation does not stand.',
    client: 'REFRESH',
    detail: 'Name the latest confirmation, once it is approved, or request a new one.',
  },
  OFFER_MISMATCH: {
    status: 409,
    title: 'The offer is another one.',
    client: 'FIX',
    detail: 'Order exactly the quantity of the task and exactly what was confirmed.',
  },
  LIMIT_REACHED: {
    status: 409,
    title: 'The limit of this attempt is reached.',
    client: 'STOP',
    detail: 'Send no more of these for this attempt.',
  },
  CLIENT_ID_REUSED: {
    status: 409,
    title: 'The client id was used for other content.',
    client: 'FIX',
    detail: 'Make a new client id for new content.',
  },
  DUPLICATE_EXTERNAL_REF: {
    status: 409,
    title: 'The external reference is taken.',
    client: 'FIX',
    detail: 'Use another reference, or look for the task that has it.',
  },
  DUPLICATE_USERNAME: {
    status: 409,
    title: 'The username is taken.',
    client: 'FIX',
    detail: 'Use another username.',
  },
  DUPLICATE_DEVICE: {
    status: 409,
    title: 'The device is already authorised.',
    client: 'REFRESH',
    detail: 'Update the device instead.',
  },
  DEVICE_BUSY: {
    status: 409,
    title: 'The device has an unfinished attempt.',
    client: 'REFRESH',
    detail: 'Bring its task to an end before the device gets another buyer.',
  },
  LAST_ADMIN: {
    status: 409,
    title: 'This is the last active admin.',
    client: 'FIX',
    detail: 'Make another admin first.',
  },
  INTERNAL_ERROR: {
    status: 500,
    title: 'The server failed.',
    client: 'RETRY_SAME',
    detail: 'Send the same request again later.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    title: 'The server is busy.',
    client: 'RETRY_SAME',
    detail: 'Send the same request again after Retry-After; nothing was changed.',
  },
} as const satisfies Record<ErrorCode, CatalogueEntry>;

/** The `type` member of a problem. */
export function problemType(code: ErrorCode): string {
  return `urn:cmbuyer:problem:${code}`;
}

export interface RefusalExtra {
  /** How the task stands, only where the caller may know it. */
  current?: CurrentTask;
  readiness_reasons?: ReadinessReason[];
  /** The device's own task, with DEVICE_HAS_ACTIVE_TASK. */
  active_task_id?: string;
  errors?: FieldError[];
  /** At least 1; sent as Retry-After. */
  retryAfterSeconds?: number;
  /** For the log, never for the answer. */
  cause?: unknown;
}

/** Thrown by every rule that says no; rendered as a problem in one place. */
export class Refusal extends Error {
  readonly code: ErrorCode;
  readonly extra: Omit<RefusalExtra, 'cause'>;

  constructor(code: ErrorCode, { cause, ...extra }: RefusalExtra = {}) {
    super(code, cause === undefined ? undefined : { cause });
    this.name = 'Refusal';
    this.code = code;
    this.extra = extra;
  }

  get status(): number {
    return errorCatalogue[this.code].status;
  }
}
