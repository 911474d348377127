export {
  type AdminClient,
  type Bound,
  type ConnectionOptions,
  createAdminClient,
  createDeviceClient,
  type DeviceClient,
  type DeviceClientOptions,
} from './clients.js';
export { CmbuyerNetworkError, CmbuyerProblem, type ProblemCode } from './errors.js';
export * from './gen/index.js';
export {
  type CallKeys,
  type KeyHeaders,
  keyHeaders,
  newCallKeys,
  newClaimToken,
  newIdempotencyKey,
  type WithKeysOptions,
  withKeys,
} from './keys.js';
export type { RetryOptions } from './retry.js';
