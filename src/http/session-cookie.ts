import type { Request } from 'express';
import { SESSION_COOKIE } from '../access/sessions';

/** The `Set-Cookie` value for a session; an empty token with age 0 takes the cookie away. */
export function sessionCookie(request: Request, token: string, maxAgeSeconds: number): string {
  const secure = mustBeSecure(request) ? '; Secure' : '';
  return `${SESSION_COOKIE}=${token}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${maxAgeSeconds}${secure}`;
}

/** Secure everywhere but on loopback over plain HTTP, where a browser would never send it back. */
export function mustBeSecure(request: Request): boolean {
  const protocol = forwarded(request, 'X-Forwarded-Proto') ?? request.protocol;
  if (protocol === 'https') return true;
  const host = forwarded(request, 'X-Forwarded-Host')?.replace(/:\d+$/, '') ?? request.hostname;
  return !isLoopbackName(host) || !isLoopbackAddress(request.socket.localAddress ?? '');
}

/** What our own proxy said: it adds the last entry. Express would take the first, which anybody may have written. */
function forwarded(request: Request, name: string): string | undefined {
  const isProxy: (address: string, hop: number) => boolean = request.app.get('trust proxy fn');
  if (!isProxy(request.socket.remoteAddress ?? '', 0)) return undefined;
  return request.get(name)?.split(',').at(-1)?.trim();
}

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || isLoopbackAddress(name.replace(/^\[|\]$/g, ''));
}

function isLoopbackAddress(address: string): boolean {
  return /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(address) || address === '::1';
}
