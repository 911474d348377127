import type { Request } from 'express';
import { SESSION_COOKIE } from '../access/sessions';

/** The `Set-Cookie` value for a session; an empty token with age 0 takes the cookie away. */
export function sessionCookie(request: Request, token: string, maxAgeSeconds: number): string {
  const secure = mustBeSecure(request) ? '; Secure' : '';
  return `${SESSION_COOKIE}=${token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${maxAgeSeconds}${secure}`;
}

/** Secure everywhere but on loopback over plain HTTP, where a browser would never send it back. */
export function mustBeSecure(request: Request): boolean {
  if (request.secure) return true;
  return !isLoopbackName(request.hostname) || !isLoopbackAddress(request.socket.localAddress ?? '');
}

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || isLoopbackAddress(name.replace(/^\[|\]$/g, ''));
}

function isLoopbackAddress(address: string): boolean {
  return /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(address) || address === '::1';
}
