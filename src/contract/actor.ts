/** Who acts. A device actor is the pair (user, device) of its token, never what a body says. */
export interface DeviceActor {
  type: 'DEVICE';
  user_id: string;
  device_id: string;
  /** The access token that the call came with; read again inside every transaction. */
  token_id: string;
}

export interface AdminActor {
  type: 'ADMIN';
  user_id: string;
  session_id: string;
}

/** A command on the server's own terminal. */
export interface SystemActor {
  type: 'SYSTEM';
}

export type Actor = DeviceActor | AdminActor | SystemActor;
