import Ajv, { type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import type {
  ContractDocument,
  ContractOperation,
  ContractResponse,
  ContractSchema,
} from '../contract/document';
import type { Problem } from '../contract/generated/types.gen';

export interface CheckedAnswer {
  status: number;
  type?: string;
  headers: Record<string, unknown>;
  /** Parsed JSON, or undefined for other media types. */
  json?: unknown;
}

/** Throws when an answer is not what the contract declares. On in all tests, off in production. */
export type ResponseCheck = (operation: ContractOperation, answer: CheckedAnswer) => void;

/**
 * Holds every answer, problems too, to the contract: status, media type, declared headers, schema, nothing undeclared
 * inside, and only the error codes that the operation lists.
 */
export function buildResponseCheck(document: ContractDocument): ResponseCheck {
  const strict = structuredClone(document);
  for (const schema of Object.values(strict.components.schemas)) closeObjects(schema);
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  ajv.addSchema(strict, 'contract');
  const validators = new Map<string, ValidateFunction>();

  function validatorFor(reference: string): ValidateFunction {
    let validator = validators.get(reference);
    if (!validator) {
      validator = ajv.compile({ $ref: `contract${reference}` });
      validators.set(reference, validator);
    }
    return validator;
  }

  return (operation, answer) => {
    const where = `${operation.operationId} ${answer.status}`;
    const declared = operation.responses[String(answer.status)];
    if (!declared) throw new Error(`${where} is not declared`);
    const response = resolve(document, declared);
    for (const name of Object.keys(response.headers ?? {})) {
      const isOptional = name === 'Idempotent-Replayed' || name === 'Set-Cookie';
      if (!isOptional && answer.headers[name.toLowerCase()] === undefined)
        throw new Error(`${where} lacks ${name}`);
    }
    const media = response.content ?? {};
    if (answer.type === undefined) {
      if (Object.keys(media).length > 0) throw new Error(`${where} has no body`);
      return;
    }
    const schema = media[answer.type]?.schema;
    if (!schema) throw new Error(`${where} answers ${answer.type}, which is not declared`);
    if (answer.json === undefined) return;
    if (!schema.$ref) throw new Error(`${where} has a schema without a name, which cannot be checked`);
    const validate = validatorFor(schema.$ref);
    if (!validate(answer.json)) throw new Error(`${where}: ${ajv.errorsText(validate.errors)}`);
    if (answer.status >= 400) {
      const { code } = answer.json as Problem;
      if (!operation['x-error-codes'].includes(code))
        throw new Error(`${where} answers ${code}, which it does not list`);
    }
  };
}

function resolve(document: ContractDocument, response: ContractResponse): ContractResponse {
  if (!response.$ref) return response;
  const name = response.$ref.split('/').at(-1) as string;
  return document.components.responses[name] as ContractResponse;
}

/** An answer may hold nothing that its schema does not name. */
function closeObjects(schema: ContractSchema): void {
  if (schema.properties) {
    schema.additionalProperties ??= false;
    for (const property of Object.values(schema.properties)) closeObjects(property);
  }
  if (schema.items) closeObjects(schema.items);
}
