import Ajv from 'ajv';
import addFormats from 'ajv-formats';
import OpenAPIBackend from 'openapi-backend';
import { parse } from 'yaml';
import { type ContractParameter, type ContractSchema, loadContract } from './document';
import { type CatalogueEntry, errorCatalogue, Refusal } from './errors';
import { operationIds } from './generated/operations.gen';

const { contractYaml, document, definition } = loadContract();
const { components } = document;
const catalogue: Record<string, CatalogueEntry> = errorCatalogue;

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation, id: operation.operationId })),
);
const nameOf = (ref: string) => ref.split('/').pop() as string;
const parametersOf = (operation: { parameters?: { $ref: string }[] }): ContractParameter[] =>
  (operation.parameters ?? []).map(({ $ref }) => components.parameters[nameOf($ref)] as ContractParameter);

const requestSchemas = new Set(
  operations.flatMap(({ operation }) =>
    Object.values(operation.requestBody?.content ?? {}).map((media) => nameOf(media.schema.$ref ?? '')),
  ),
);
const freeForm = ['TaskEventDetail', 'OpenapiDocument', 'OpenapiPart'];

/** Every schema of the document with a name to tell it by; `named` is true for a component itself. */
function* schemas(): Generator<{ at: string; schema: ContractSchema; named: boolean }> {
  function* within(at: string, schema: ContractSchema, named: boolean): ReturnType<typeof schemas> {
    yield { at, schema, named };
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      yield* within(`${at}.${name}`, property, false);
    }
    if (schema.items) yield* within(`${at}[]`, schema.items, false);
  }
  for (const [name, schema] of Object.entries(components.schemas)) yield* within(name, schema, true);
  for (const [name, parameter] of Object.entries(components.parameters)) {
    yield* within(`parameter ${name}`, parameter.schema, false);
  }
  for (const [name, header] of Object.entries(components.headers)) {
    yield* within(`header ${name}`, header.schema, false);
  }
  for (const { id, operation } of operations) {
    for (const [type, media] of Object.entries(operation.requestBody?.content ?? {})) {
      yield* within(`${id} ${type}`, media.schema, false);
    }
    for (const [status, response] of Object.entries(operation.responses)) {
      for (const [type, media] of Object.entries(response.content ?? {})) {
        yield* within(`${id} ${status} ${type}`, media.schema, false);
      }
    }
  }
}
const allSchemas = [...schemas()];
const breaking = (rule: (entry: (typeof allSchemas)[number]) => boolean) =>
  allSchemas.filter(rule).map((entry) => entry.at);

/** Every node of the document, with the key under which it stands. */
function* nodes(value: unknown, key = ''): Generator<{ key: string; value: unknown }> {
  yield { key, value };
  if (typeof value !== 'object' || value === null) return;
  for (const [name, child] of Object.entries(value)) yield* nodes(child, name);
}
const allNodes = [...nodes(document)];

describe('the contract as a file', () => {
  it('reads the same in YAML 1.1, which older parsers speak', () => {
    expect(parse(contractYaml.toString('utf8'), { version: '1.1' })).toEqual(document);
  });

  it('starts in openapi-backend', async () => {
    const api = new OpenAPIBackend({
      definition: definition() as never,
      apiRoot: '/',
      strict: true,
      coerceTypes: true,
      ignoreTrailingSlashes: false,
      ajvOpts: { discriminator: true, useDefaults: true },
      customizeAjv: (ajv) => {
        addFormats(ajv);
        return ajv;
      },
    });
    await api.init();
    expect(api.router.getOperations()).toHaveLength(operations.length);
  });

  it('gives openapi-backend a copy of its own', () => {
    const copy = definition();
    copy.info.title = 'changed';
    expect(document.info.title).toBe('cmbuyer');
    expect(copy.paths['/api/v1/device/claim-next']?.post?.responses['200']?.links).toBeUndefined();
    expect(document.paths['/api/v1/device/claim-next']?.post?.responses['200']?.links).toBeDefined();
  });
});

describe('operations', () => {
  it('have a unique lowerCamelCase operationId, a unique summary and a description', () => {
    const ids = operations.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter((id) => !/^[a-z][A-Za-z0-9]*$/.test(id))).toEqual([]);
    expect(new Set(operations.map(({ operation }) => operation.summary)).size).toBe(ids.length);
    expect(operations.filter(({ operation }) => !operation.description)).toEqual([]);
    expect([...operationIds]).toEqual(ids);
  });

  it('stand under absolute paths without path-level parameters', () => {
    const keys = Object.values(document.paths).flatMap((item) => Object.keys(item));
    expect(keys.filter((key) => !['get', 'put', 'post', 'delete'].includes(key))).toEqual([]);
    expect(Object.keys(document.paths).filter((path) => !path.startsWith('/') || path.endsWith('/'))).toEqual(
      [],
    );
  });

  describe.each(operations)('$id', ({ path, method, operation }) => {
    const codes = operation['x-error-codes'];
    const statuses = Object.keys(operation.responses);
    const parameters = parametersOf(operation);

    it('has exactly one tag, the one of its path', () => {
      const tag = /^\/api\/v1\/(device|admin)\//.exec(path)?.[1] ?? 'meta';
      expect(operation.tags).toEqual([tag]);
    });

    it('asks for the credentials of its side', () => {
      const open = operation.tags[0] === 'meta' || /^login/.test(operation.operationId);
      const admin = method === 'get' ? { adminSession: [] } : { adminSession: [], adminCsrf: [] };
      const secured = operation.tags[0] === 'device' ? { deviceToken: [] } : admin;
      expect(operation.security).toEqual(open ? [] : [secured]);
    });

    it('declares each path parameter, and an example for each required parameter', () => {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      expect(parameters.filter((each) => each.in === 'path').map((each) => each.name)).toEqual(inPath);
      const required = parameters.filter((each) => each.required);
      expect(required.filter((each) => each.example === undefined)).toEqual([]);
    });

    it('takes one media type and answers explicit statuses', () => {
      expect(Object.keys(operation.requestBody?.content ?? { one: 1 })).toHaveLength(1);
      expect(statuses.filter((status) => !/^[2-5][0-9][0-9]$/.test(status))).toEqual([]);
      expect(operation.responses['204']?.content).toBeUndefined();
    });

    it('names known error codes once each, and declares exactly their statuses', () => {
      expect(new Set(codes).size).toBe(codes.length);
      expect(codes.filter((code) => !(code in catalogue))).toEqual([]);
      const declared = statuses.filter((status) => status >= '400');
      expect(declared).toEqual([...new Set(codes.map((code) => `${catalogue[code]?.status}`))].sort());
      for (const status of declared) {
        expect(operation.responses[status]).toEqual({ $ref: `#/components/responses/Problem${status}` });
      }
    });

    it('names the codes of the checks in front of every operation', () => {
      const content = Object.entries(operation.responses).some(
        ([status, each]) => status < '300' && each.content,
      );
      const body = operation.requestBody?.content;
      const expected = {
        UNAUTHENTICATED: operation.security.length > 0,
        TOKEN_EXPIRED: operation.security.length > 0,
        TOKEN_REVOKED: operation.security.length > 0,
        CSRF_FAILED: operation.security.some((each) => 'adminCsrf' in each),
        NOT_ACCEPTABLE: content,
        UNSUPPORTED_MEDIA_TYPE: body !== undefined,
        PAYLOAD_TOO_LARGE: body !== undefined,
        MALFORMED_JSON: body?.['application/json'] !== undefined,
        INVALID_REQUEST: true,
        IDEMPOTENCY_KEY_REUSED: parameters.some((each) => each.name === 'Idempotency-Key'),
        INVALID_CURSOR: parameters.some((each) => each.name === 'cursor'),
        INTERNAL_ERROR: true,
      };
      const named = Object.keys(expected).map((code) => [code, codes.includes(code)]);
      expect(Object.fromEntries(named)).toEqual(expected);
    });

    it('answers a request id, and tells a replay where it takes a key', () => {
      for (const [status, response] of Object.entries(operation.responses)) {
        if (status >= '300') continue;
        const headers = Object.keys(response.headers ?? {});
        expect(headers).toContain('X-Request-Id');
        expect(headers.includes('Idempotent-Replayed')).toBe(codes.includes('IDEMPOTENCY_KEY_REUSED'));
      }
    });

    it('links only to operations that exist', () => {
      const links = Object.values(operation.responses).flatMap((response) =>
        Object.values(response.links ?? {}),
      );
      const targets = links.map((link) => (link as { operationId: string }).operationId);
      expect(targets.filter((target) => !operations.some(({ id }) => id === target))).toEqual([]);
    });
  });
});

describe('schemas', () => {
  it('use no composition, no null and no default response', () => {
    const banned = ['oneOf', 'anyOf', 'allOf', 'not', 'discriminator', 'nullable', 'readOnly', 'writeOnly'];
    expect(allNodes.filter(({ key }) => banned.includes(key))).toEqual([]);
  });

  it('leave a $ref alone and resolve it', () => {
    const refs = allNodes.filter(
      ({ value }) => typeof value === 'object' && value !== null && '$ref' in value,
    );
    expect(refs.filter(({ value }) => Object.keys(value as object).length > 1)).toEqual([]);
    const known = Object.entries(components).flatMap(([kind, members]) =>
      Object.keys(members).map((name) => `#/components/${kind}/${name}`),
    );
    const missing = refs.filter(({ value }) => !known.includes((value as { $ref: string }).$ref));
    expect(missing).toEqual([]);
  });

  it('are used, except the lists of known values', () => {
    const used = new Set(allNodes.filter(({ key }) => key === '$ref').map(({ value }) => value));
    const unused = (['schemas', 'parameters', 'headers', 'responses'] as const).flatMap((kind) =>
      Object.keys(components[kind]).filter((name) => !used.has(`#/components/${kind}/${name}`)),
    );
    expect(unused.filter((name) => !['ErrorCode', 'EvidenceKind'].includes(name))).toEqual([]);
  });

  it('name every object and every enum as a component', () => {
    expect(breaking(({ schema, named }) => !named && (schema.type === 'object' || !!schema.enum))).toEqual(
      [],
    );
  });

  it('describe every component', () => {
    expect(breaking(({ schema, named }) => named && !schema.description)).toEqual([]);
  });

  it('bound every string, integer and array', () => {
    const isText = (schema: ContractSchema) =>
      schema.type === 'string' && !schema.enum && schema.format !== 'binary';
    expect(breaking(({ schema }) => isText(schema) && schema.maxLength === undefined)).toEqual([]);
    expect(breaking(({ schema }) => schema.type === 'array' && schema.maxItems === undefined)).toEqual([]);
    const unbounded = ({ minimum, maximum, format }: ContractSchema) =>
      minimum === undefined || maximum === undefined || maximum > Number.MAX_SAFE_INTEGER || !format;
    expect(breaking(({ schema }) => schema.type === 'integer' && unbounded(schema))).toEqual([]);
  });

  it('give a pattern to every text of a request and to every identifier and instant', () => {
    const plain = ({ schema }: { schema: ContractSchema }) =>
      schema.type === 'string' && !schema.enum && schema.format !== 'binary' && !schema.pattern;
    const inRequest = (at: string) =>
      requestSchemas.has(at.split('.')[0] as string) || at.startsWith('parameter');
    const identifier = /(^|[._])(id|ids\[\]|token|sha256|at|time|key|code|no|cursor)$/;
    expect(breaking((entry) => plain(entry) && (inRequest(entry.at) || identifier.test(entry.at)))).toEqual(
      [],
    );
    expect(breaking(({ schema }) => schema.format === 'date-time' && schema.maxLength !== 24)).toEqual([]);
  });

  it('have patterns that hold under the unicode flag', () => {
    for (const { schema } of allSchemas) {
      if (schema.pattern) expect(() => new RegExp(schema.pattern as string, 'u')).not.toThrow();
    }
  });

  it('write money and versions as int64 and money as *_cents', () => {
    const wide = /(_cents|version|generation)$/;
    expect(
      breaking(({ at, schema }) => wide.test(at) && schema.type === 'integer' && schema.format !== 'int64'),
    ).toEqual([]);
    expect(breaking(({ at }) => /(price|amount|cost|fee)$/.test(at))).toEqual([]);
  });

  it('refuse unknown fields in requests and only there', () => {
    const objects = Object.entries(components.schemas).filter(([, schema]) => schema.type === 'object');
    const strict = objects
      .filter(([, schema]) => schema.additionalProperties === false)
      .map(([name]) => name);
    expect(strict.sort()).toEqual([...requestSchemas].sort());
    const open = objects.filter(([, schema]) => schema.additionalProperties === true).map(([name]) => name);
    expect(open.sort()).toEqual([...freeForm].sort());
  });
});

describe('examples', () => {
  const ajv = addFormats(new Ajv({ strict: false, allErrors: true }));
  ajv.addSchema(document as object, 'contract');
  const faults = (schema: ContractSchema, example: unknown) => {
    const target = schema.$ref ? { $ref: `contract${schema.$ref}` } : schema;
    const validate = ajv.compile(target);
    return validate(example) ? [] : (validate.errors ?? []);
  };
  const resolve = (schema: ContractSchema) =>
    schema.$ref ? (components.schemas[nameOf(schema.$ref)] as ContractSchema) : schema;

  /** Keys of the example, at any depth, that its schema does not require. */
  function optionalKeys(schema: ContractSchema, example: unknown, at = ''): string[] {
    const { required = [], properties = {}, items } = resolve(schema);
    if (Array.isArray(example)) {
      return example.flatMap((item, index) => optionalKeys(items as ContractSchema, item, `${at}/${index}`));
    }
    if (typeof example !== 'object' || example === null) return [];
    return Object.entries(example).flatMap(([key, value]) =>
      required.includes(key)
        ? optionalKeys(properties[key] as ContractSchema, value, `${at}/${key}`)
        : [`${at}/${key}`],
    );
  }

  const isJson = (type: string) => /[/+]json$/.test(type);
  const answers = [
    ...operations.flatMap(({ id, operation }) =>
      Object.entries(operation.responses).map(([status, response]) => ({ at: `${id} ${status}`, response })),
    ),
    ...Object.entries(components.responses).map(([at, response]) => ({ at, response })),
  ].flatMap(({ at, response }) =>
    Object.entries(response.content ?? {}).map(([type, media]) => ({ at, type, media })),
  );

  it.each(answers.filter(({ type }) => isJson(type)))(
    'of $at is valid, with required keys only',
    ({ media }) => {
      expect(media.example).toBeDefined();
      expect(faults(media.schema, media.example)).toEqual([]);
      expect(optionalKeys(media.schema, media.example)).toEqual([]);
    },
  );

  const bodies = operations.flatMap(({ id, operation }) =>
    Object.entries(operation.requestBody?.content ?? {}).map(([type, media]) => ({ id, type, media })),
  );
  it.each(bodies.filter(({ type }) => isJson(type)))('of the body of $id is valid', ({ media }) => {
    expect(media.example).toBeDefined();
    expect(faults(media.schema, media.example)).toEqual([]);
  });

  it.each(Object.entries(components.parameters))('of the parameter %s is valid', (_, parameter) => {
    if (parameter.example !== undefined) expect(faults(parameter.schema, parameter.example)).toEqual([]);
  });
});

describe('the error catalogue', () => {
  it('holds exactly the codes of the contract', () => {
    expect(Object.keys(catalogue).sort()).toEqual([...(components.schemas.ErrorCode?.enum ?? [])].sort());
  });

  it('has one response component for each status but 405, which no operation can answer', () => {
    const statuses = [...new Set(Object.values(catalogue).map((entry) => entry.status))].sort();
    const declared = Object.keys(components.responses).map((name) => Number(name.replace('Problem', '')));
    expect(declared).toEqual(statuses.filter((status) => status !== 405));
  });

  it.each(Object.entries(components.responses))('words the example of %s', (_, response) => {
    const example = response.content?.['application/problem+json']?.example as Record<string, unknown>;
    const entry = catalogue[example.code as string];
    expect(example).toMatchObject({ status: entry?.status, title: entry?.title, detail: entry?.detail });
    expect(example.type).toBe(`urn:cmbuyer:problem:${example.code}`);
  });

  it('sends the headers that a status calls for', () => {
    const having = (header: string) =>
      Object.keys(components.responses).filter((name) => components.responses[name]?.headers?.[header]);
    expect(having('X-Request-Id')).toEqual(Object.keys(components.responses));
    expect(having('WWW-Authenticate')).toEqual(['Problem401']);
    expect(having('Retry-After')).toEqual(['Problem429', 'Problem503']);
  });

  it('fits the bounds of a problem', () => {
    const { title, detail, code } = components.schemas.Problem?.properties ?? {};
    for (const [name, entry] of Object.entries(catalogue)) {
      expect(entry.title.length).toBeLessThanOrEqual(title?.maxLength ?? 0);
      expect(entry.detail.length).toBeLessThanOrEqual(detail?.maxLength ?? 0);
      expect(name).toMatch(new RegExp(code?.pattern ?? '$^'));
    }
  });

  it('keeps the cause of a refusal out of what is shown', () => {
    const refusal = new Refusal('LEASE_EXPIRED', { cause: new Error('secret'), retryAfterSeconds: 2 });
    expect(refusal.status).toBe(409);
    expect(refusal.extra).toEqual({ retryAfterSeconds: 2 });
    expect(refusal.message).toBe('LEASE_EXPIRED');
    expect(refusal.cause).toBeInstanceOf(Error);
  });
});
