import { existsSync } from 'node:fs';
import path from 'node:path';
import { allFacts } from '../../src/testing/all-facts';
import { startTestApp, type TestApp } from '../../src/testing/start-test-app';
import { expectStatus, makeDraft, newPicture, putPicture } from '../http/scenario';
import { type LocalS3, SECRET, startLocalS3 } from './local-s3';

describe('the server with its pictures in S3', () => {
  let s3: LocalS3;
  let app: TestApp;

  beforeAll(async () => {
    s3 = await startLocalS3();
    app = await startTestApp({ CMBUYER_IMAGE_STORE_URL: s3.url() });
  });

  afterAll(async () => {
    await app?.close();
    await s3?.stop();
  });

  const readPicture = (task_id: string) =>
    app.call('getTaskReferenceImage', { as: app.admin, path: { task_id } });

  it('takes a picture, serves it, and keeps nothing on its own disk', async () => {
    const content = await newPicture();
    const task = await putPicture(app, await makeDraft(app), content);
    expectStatus(await readPicture(task.id), 200);
    expect(existsSync(path.join(app.dataDir, 'images'))).toBe(false);
  });

  it('answers SERVICE_UNAVAILABLE while the store is gone, writes nothing, stays ready, logs no secret', async () => {
    const task = await putPicture(app, await makeDraft(app), await newPicture());
    await s3.stop();
    const facts = await allFacts(app.database);

    const put = await app.call('putReferenceImage', {
      as: app.admin,
      path: { task_id: task.id },
      query: { expected_task_version: task.version },
      file: await newPicture(),
    });
    for (const answer of [put, await readPicture(task.id)]) {
      expect([answer.status, answer.json.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    }
    const page = await app.send('GET', `/admin/tasks/${task.id}/reference-image`, {
      headers: app.admin.headers,
    });
    expect(page.status).toBe(503);

    expect(await allFacts(app.database)).toBe(facts);
    expectStatus(await app.call('getReadiness'), 200);
    expect(app.log.text()).toContain('ECONNREFUSED');
    expect(app.log.text()).not.toContain(SECRET);
  });

  it('starts while the store is out of reach', async () => {
    const other = await startTestApp({ CMBUYER_IMAGE_STORE_URL: s3.url() });
    const ready = await other.call('getReadiness');
    await other.close();
    expectStatus(ready, 200);
  });
});
