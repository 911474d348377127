// Written by scripts/generate-operations.ts from openapi/cmbuyer.yaml; do not edit.
import type {
  AdminContext,
  AdminLoginAnswer,
  AuthorizeDeviceData,
  ChangeOwnPasswordData,
  ClaimNextTaskData,
  ClaimedTaskAnswer,
  CreateTaskData,
  CreateUserData,
  DeleteReferenceImageData,
  Device,
  DeviceContext,
  DeviceHeartbeatAnswer,
  DeviceList,
  DeviceLoginAnswer,
  FenceSubmissionData,
  GetDeviceData,
  GetHeldTaskData,
  GetReferenceImageData,
  GetTaskData,
  GetTaskReferenceImageData,
  Health,
  LifecycleAnswer,
  ListDevicesData,
  ListTaskEventsData,
  ListTasksData,
  ListUsersData,
  LoginAdminData,
  LoginDeviceData,
  OpenapiDocument,
  PutReferenceImageData,
  Readiness,
  ReportSubmissionResultData,
  ResetUserPasswordData,
  RevokeDeviceData,
  SendDeviceHeartbeatData,
  SendTaskHeartbeatData,
  StartPurchaseData,
  StartTaskData,
  TaskDetail,
  TaskEventList,
  TaskHeartbeatAnswer,
  TaskList,
  UpdateDeviceData,
  UpdateTaskData,
  UpdateUserData,
  User,
  UserList,
} from './types.gen';

type LowerCased<T> = { [K in keyof T as Lowercase<K & string>]: T[K] };

/** What each operation takes and may answer. Header names are lower case; a multipart file comes apart. */
export interface Operations {
  loginDevice: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: LoginDeviceData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: DeviceLoginAnswer; headers?: Record<string, string> };
  };
  logoutDevice: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 204; headers?: Record<string, string> };
  };
  getDeviceContext: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: DeviceContext; headers?: Record<string, string> };
  };
  sendDeviceHeartbeat: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: SendDeviceHeartbeatData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: DeviceHeartbeatAnswer; headers?: Record<string, string> };
  };
  claimNextTask: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: LowerCased<ClaimNextTaskData['headers']>;
    body: ClaimNextTaskData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: ClaimedTaskAnswer; headers?: Record<string, string> }
      | { status: 204; headers?: Record<string, string> };
  };
  getHeldTask: {
    path: NonNullable<GetHeldTaskData['path']>;
    query: Record<never, never>;
    headers: LowerCased<GetHeldTaskData['headers']>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: ClaimedTaskAnswer; headers?: Record<string, string> };
  };
  getReferenceImage: {
    path: NonNullable<GetReferenceImageData['path']>;
    query: NonNullable<GetReferenceImageData['query']>;
    headers: LowerCased<GetReferenceImageData['headers']>;
    body: undefined;
    answer:
      | { status: 200; type: 'image/jpeg'; body: Buffer; headers?: Record<string, string> };
  };
  startTask: {
    path: NonNullable<StartTaskData['path']>;
    query: Record<never, never>;
    headers: LowerCased<StartTaskData['headers']>;
    body: StartTaskData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: LifecycleAnswer; headers?: Record<string, string> };
  };
  sendTaskHeartbeat: {
    path: NonNullable<SendTaskHeartbeatData['path']>;
    query: Record<never, never>;
    headers: LowerCased<SendTaskHeartbeatData['headers']>;
    body: SendTaskHeartbeatData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: TaskHeartbeatAnswer; headers?: Record<string, string> };
  };
  fenceSubmission: {
    path: NonNullable<FenceSubmissionData['path']>;
    query: Record<never, never>;
    headers: LowerCased<FenceSubmissionData['headers']>;
    body: FenceSubmissionData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: LifecycleAnswer; headers?: Record<string, string> };
  };
  reportSubmissionResult: {
    path: NonNullable<ReportSubmissionResultData['path']>;
    query: Record<never, never>;
    headers: LowerCased<ReportSubmissionResultData['headers']>;
    body: ReportSubmissionResultData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: LifecycleAnswer; headers?: Record<string, string> };
  };
  loginAdmin: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: LoginAdminData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: AdminLoginAnswer; headers?: Record<string, string> };
  };
  logoutAdmin: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 204; headers?: Record<string, string> };
  };
  getAdminContext: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: AdminContext; headers?: Record<string, string> };
  };
  changeOwnPassword: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: ChangeOwnPasswordData['body'];
    answer:
      | { status: 204; headers?: Record<string, string> };
  };
  listTasks: {
    path: Record<never, never>;
    query: NonNullable<ListTasksData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: TaskList; headers?: Record<string, string> };
  };
  createTask: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: LowerCased<CreateTaskData['headers']>;
    body: CreateTaskData['body'];
    answer:
      | { status: 201; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  getTask: {
    path: NonNullable<GetTaskData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  updateTask: {
    path: NonNullable<UpdateTaskData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: UpdateTaskData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  putReferenceImage: {
    path: NonNullable<PutReferenceImageData['path']>;
    query: NonNullable<PutReferenceImageData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  deleteReferenceImage: {
    path: NonNullable<DeleteReferenceImageData['path']>;
    query: NonNullable<DeleteReferenceImageData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  getTaskReferenceImage: {
    path: NonNullable<GetTaskReferenceImageData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'image/jpeg'; body: Buffer; headers?: Record<string, string> };
  };
  startPurchase: {
    path: NonNullable<StartPurchaseData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: StartPurchaseData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: TaskDetail; headers?: Record<string, string> };
  };
  listTaskEvents: {
    path: NonNullable<ListTaskEventsData['path']>;
    query: NonNullable<ListTaskEventsData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: TaskEventList; headers?: Record<string, string> };
  };
  listDevices: {
    path: Record<never, never>;
    query: NonNullable<ListDevicesData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: DeviceList; headers?: Record<string, string> };
  };
  authorizeDevice: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: LowerCased<AuthorizeDeviceData['headers']>;
    body: AuthorizeDeviceData['body'];
    answer:
      | { status: 201; type: 'application/json'; body: Device; headers?: Record<string, string> };
  };
  getDevice: {
    path: NonNullable<GetDeviceData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: Device; headers?: Record<string, string> };
  };
  updateDevice: {
    path: NonNullable<UpdateDeviceData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: UpdateDeviceData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: Device; headers?: Record<string, string> };
  };
  revokeDevice: {
    path: NonNullable<RevokeDeviceData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: RevokeDeviceData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: Device; headers?: Record<string, string> };
  };
  listUsers: {
    path: Record<never, never>;
    query: NonNullable<ListUsersData['query']>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: UserList; headers?: Record<string, string> };
  };
  createUser: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: LowerCased<CreateUserData['headers']>;
    body: CreateUserData['body'];
    answer:
      | { status: 201; type: 'application/json'; body: User; headers?: Record<string, string> };
  };
  updateUser: {
    path: NonNullable<UpdateUserData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: UpdateUserData['body'];
    answer:
      | { status: 200; type: 'application/json'; body: User; headers?: Record<string, string> };
  };
  resetUserPassword: {
    path: NonNullable<ResetUserPasswordData['path']>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: ResetUserPasswordData['body'];
    answer:
      | { status: 204; headers?: Record<string, string> };
  };
  getHealth: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: Health; headers?: Record<string, string> };
  };
  getReadiness: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: Readiness; headers?: Record<string, string> };
  };
  getOpenapiYaml: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/yaml'; body: Buffer; headers?: Record<string, string> };
  };
  getOpenapiJson: {
    path: Record<never, never>;
    query: Record<never, never>;
    headers: Record<never, never>;
    body: undefined;
    answer:
      | { status: 200; type: 'application/json'; body: OpenapiDocument; headers?: Record<string, string> };
  };
}

export type OperationId = keyof Operations;

export const operationIds = [
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
  'getHealth',
  'getReadiness',
  'getOpenapiYaml',
  'getOpenapiJson',
] as const satisfies readonly OperationId[];
