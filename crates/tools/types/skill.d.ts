/**
 * Types for the authors of Cortex skills (runtimeApiVersion "1").
 *
 * A skill runs in an engine of its own: no files, no environment, no processes, no packages. Besides the language it
 * has the globals console, setTimeout, clearTimeout, queueMicrotask, URL, URLSearchParams, TextEncoder, TextDecoder,
 * Headers, crypto.randomUUID and crypto.getRandomValues. It may import .ts, .js and .json files of its own folder.
 * What a module keeps in variables may be gone at the next call; keep it in `ctx.db`.
 */

export interface SkillModule {
  listTools(): SkillTool[] | Promise<SkillTool[]>;
  /** Calls of one skill run one after another. What it throws is told to the model. */
  execute(call: SkillToolCall, ctx: SkillRuntimeContext): Promise<SkillToolResult>;
}

export interface SkillTool {
  /** "skill.tool", or "tool" alone. */
  name: string;
  /** When a model should call it, and what it gets. */
  description: string;
  /** A JSON Schema of type "object". Arguments are checked against it before `execute` is called. */
  inputSchema: Record<string, unknown>;
  /** true: a person approves each call. false: it only reads. Say one of them. */
  mutatesState?: boolean;
}

export interface SkillToolCall {
  /** Always "skill.tool". */
  name: string;
  /** A JSON object that fits the tool's inputSchema. */
  argumentsJson: string;
}

export interface SkillToolResult {
  /** What the model reads; at most 64 KiB of it. */
  content: string;
  metadata?: Record<string, unknown>;
}

export interface SkillRuntimeContext {
  /** When the call was made, such as "2026-07-27T10:00:00.000Z". */
  nowIso: string;
  /** `skillConfig.<id>` of the server's configuration. */
  config: Record<string, unknown>;
  db: SkillDatabase;
  http: { fetch(url: string | URL, init?: SkillFetchInit): Promise<SkillFetchResponse> };
  time: {
    /** The time of the call, or another one, in a zone such as "Europe/Berlin": "2026-07-27T12:00:00+02:00". */
    format(timeZone: string, at?: string | number | Date): string;
  };
}

export type SkillDbParam = null | undefined | boolean | number | bigint | string | Uint8Array;
/** An integer beyond 2^53 comes as a bigint, a BLOB as bytes. */
export type SkillDbValue = null | number | bigint | string | Uint8Array;

/** A private SQLite file of at most 64 MiB. One statement a call; a transaction left open is rolled back. */
export interface SkillDatabase {
  query<Row = Record<string, SkillDbValue>>(sql: string, params?: SkillDbParam[]): Row[];
  run(sql: string, params?: SkillDbParam[]): { changes: number; lastInsertRowid: number | bigint };
}

export interface SkillFetchInit {
  method?: string;
  headers?: Record<string, string> | Iterable<[string, string]>;
  body?: string | Uint8Array | ArrayBuffer | URLSearchParams;
}

/** Reaches public hosts, or only those that `permissions.hosts` of skill.json names. */
export interface SkillFetchResponse {
  readonly status: number;
  readonly ok: boolean;
  /** Where the answer came from, after redirects. */
  readonly url: string;
  readonly headers: {
    get(name: string): string | null;
    has(name: string): boolean;
    forEach(visit: (value: string, name: string) => void): void;
  };
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
