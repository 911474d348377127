import express, { type RequestHandler, Router } from 'express';
import helmet from 'helmet';
import type { Logger } from 'pino';
import { Refusal } from '../contract/errors';
import type { Services } from '../http/services';
import { devicePages } from './devices';
import { passwordPages } from './password';
import { preferencePages } from './preferences';
import { problemPages } from './problem-page';
import { assetsPath, publicFolder } from './render';
import { home } from './return-to';
import { signInPages } from './sign-in';
import { taskDetailPages } from './task-detail';
import { taskFormPages } from './task-form';
import { taskListPages } from './task-list';
import { userPages } from './users';
import { type Desk, nameRequest, requireSession, seeOther } from './visit';

/** Nothing but our own files, and nothing inline: what a phone or a person typed can never run. */
const guardHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
  },
  referrerPolicy: { policy: 'same-origin' },
  xFrameOptions: { action: 'deny' },
  // Whether this host is ever reached without TLS is for the operator's proxy to promise.
  strictTransportSecurity: false,
});

/** All HTML doors, under /admin. */
export async function buildPages(services: Services, log: Logger): Promise<RequestHandler> {
  const desk: Desk = { services, log };
  const router = Router();
  router.use('/admin', guardHeaders);
  router.use(
    assetsPath,
    express.static(publicFolder, { index: false, redirect: false, immutable: true, maxAge: '365d' }),
  );
  router.use('/admin', nameRequest(desk));

  router.use(preferencePages());
  router.use(signInPages(desk));
  router.use('/admin', requireSession(desk));
  router.get('/admin', (_request, response) => seeOther(response, home));
  router.use(taskListPages(desk));
  router.use(taskFormPages(desk));
  router.use(taskDetailPages(desk));
  router.use(devicePages(desk));
  router.use(userPages(desk));
  router.use(passwordPages(desk));
  router.use('/admin', () => {
    throw new Refusal('NOT_FOUND');
  });
  router.use('/admin', problemPages(desk));
  return router;
}
