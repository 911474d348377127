import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { packageRoot } from '../config';

export type HttpMethod = 'get' | 'put' | 'post' | 'delete';

/** As much of an OpenAPI 3.0 schema as the contract uses. */
export interface ContractSchema {
  $ref?: string;
  type?: 'object' | 'array' | 'string' | 'integer' | 'boolean';
  format?: string;
  description?: string;
  enum?: string[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  items?: ContractSchema;
  required?: string[];
  properties?: Record<string, ContractSchema>;
  additionalProperties?: boolean;
  maxProperties?: number;
  default?: unknown;
}

export interface ContractMediaType {
  schema: ContractSchema;
  example?: unknown;
}

export interface ContractParameter {
  $ref?: string;
  name: string;
  in: 'path' | 'query' | 'header' | 'cookie';
  required: boolean;
  description?: string;
  schema: ContractSchema;
  example?: unknown;
}

export interface ContractResponse {
  $ref?: string;
  description: string;
  headers?: Record<string, { $ref: string }>;
  content?: Record<string, ContractMediaType>;
  links?: Record<string, unknown>;
}

export interface ContractOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  security: Record<string, string[]>[];
  parameters?: { $ref: string }[];
  requestBody?: { required: boolean; content: Record<string, ContractMediaType> };
  responses: Record<string, ContractResponse>;
  'x-error-codes': string[];
}

export interface ContractDocument {
  openapi: string;
  info: { title: string; version: string; description: string };
  paths: Record<string, Partial<Record<HttpMethod, ContractOperation>>>;
  components: {
    parameters: Record<string, ContractParameter>;
    headers: Record<string, { description: string; schema: ContractSchema }>;
    responses: Record<string, ContractResponse>;
    schemas: Record<string, ContractSchema>;
    securitySchemes: Record<string, unknown>;
  };
}

export interface Contract {
  /** The file as it is, byte for byte. */
  readonly contractYaml: Buffer;
  /** Shared; do not change it. */
  readonly document: ContractDocument;
  /**
   * A copy of its own for openapi-backend, which changes what it gets. Links are left out: its document
   * check takes a link with an object as request body for an error.
   */
  readonly definition: () => ContractDocument;
}

/** Loads the contract; without a path, the one of the package that this file belongs to. */
export function loadContract(path: string = join(packageRoot, 'openapi', 'cmbuyer.yaml')): Contract {
  const contractYaml = readFileSync(path);
  const document = parse(contractYaml.toString('utf8')) as ContractDocument;
  return { contractYaml, document, definition: () => withoutLinks(structuredClone(document)) };
}

function withoutLinks(document: ContractDocument): ContractDocument {
  for (const item of Object.values(document.paths)) {
    for (const operation of Object.values(item)) {
      for (const response of Object.values(operation.responses)) delete response.links;
    }
  }
  return document;
}
