// Written by scripts/generate-operations.ts from openapi/cmbuyer.yaml; do not edit.
export const deviceOperations = [
  'loginDevice',
  'logoutDevice',
  'getDeviceContext',
  'sendDeviceHeartbeat',
  'claimNextTask',
  'getHeldTask',
  'getReferenceImage',
  'startTask',
  'sendTaskHeartbeat',
  'fenceSubmission',
  'reportSubmissionResult',
] as const;

export const adminOperations = [
  'loginAdmin',
  'logoutAdmin',
  'getAdminContext',
  'changeOwnPassword',
  'listTasks',
  'createTask',
  'getTask',
  'updateTask',
  'putReferenceImage',
  'deleteReferenceImage',
  'getTaskReferenceImage',
  'startPurchase',
  'listTaskEvents',
  'listDevices',
  'authorizeDevice',
  'getDevice',
  'updateDevice',
  'revokeDevice',
  'listUsers',
  'createUser',
  'updateUser',
  'resetUserPassword',
] as const;

export const metaOperations = [
  'getHealth',
  'getReadiness',
  'getOpenapiYaml',
  'getOpenapiJson',
] as const;
