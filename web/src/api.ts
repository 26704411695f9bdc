// Requests to the public API.
import type { ProblemView } from "./wire.ts";
import { EventReader } from "./events.ts";
import { leave, proof } from "./login.ts";

export class Problem extends Error {
  readonly view: ProblemView;

  constructor(view: ProblemView) {
    super(view.detail);
    this.view = view;
  }
}

/** A key of a request that is not repeated. Pages without TLS have no `randomUUID`. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface Options {
  method?: string;
  body?: unknown;
  /** Requests that are sent as one, a line each. */
  lines?: readonly unknown[];
  key?: string;
  signal?: AbortSignal;
}

function unreachable(detail = "the server does not answer"): ProblemView {
  return {
    type: "", title: "No answer", status: 0, detail, code: "unreachable",
    hint: "check that it runs: sokovan status", request_id: "", problems: [],
  };
}

/** The content of an answer, which can break off, or be that of something in between. Throws Problem. */
async function contentOf<T>(answer: Response, signal?: AbortSignal): Promise<T> {
  try {
    return (await answer.json()) as T;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(unreachable(`the answer ${answer.status} is not complete`));
  }
}

/** The answer to a request. Throws Problem. */
export async function call<T>(path: string, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = { "X-Sokovan-Proof": proof.value };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.lines) headers["Content-Type"] = "application/x-ndjson";
  if (options.key) headers["Idempotency-Key"] = options.key;
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method: options.method ?? "GET",
      headers,
      body: options.lines ? options.lines.map((one) => `${JSON.stringify(one)}\n`).join("") : options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(unreachable());
  }
  if (answer.status === 401) leave();
  if (!answer.ok) throw new Problem(await contentOf<ProblemView>(answer, options.signal));
  return answer.status === 204 ? (undefined as T) : contentOf<T>(answer, options.signal);
}

/** Send a request and take the parts of its answer as they come. Throws Problem. */
export function streamed<T>(path: string, body: unknown, signal: AbortSignal, take: (part: T) => void): Promise<string> {
  return taken(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal }, take);
}

/** Take what there is of a stream by now, from a place on; the place that is reached. Throws Problem. */
export function pieces<T>(path: string, place: string, signal: AbortSignal | null, take: (part: T) => void): Promise<string> {
  return taken(path, { headers: place ? { "Last-Event-ID": place } : {}, signal }, take, place);
}

async function taken<T>(path: string, request: RequestInit, take: (part: T) => void, place = ""): Promise<string> {
  const { signal } = request;
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, { ...request, headers: { ...request.headers, "X-Sokovan-Proof": proof.value } });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(unreachable());
  }
  if (answer.status === 401) leave();
  if (!answer.ok || !answer.body) throw new Problem(await contentOf<ProblemView>(answer, signal ?? undefined));
  const reader = answer.body.getReader();
  const parser = new EventReader();
  parser.place = place;
  for (;;) {
    const { value, done } = await reader.read().catch((error: unknown) => {
      if (signal?.aborted) throw error;
      throw new Problem(unreachable("the answer broke off"));
    });
    if (done) return parser.place;
    for (const one of parser.push(value)) {
      if (one.event === "problem") throw new Problem(JSON.parse(one.data) as ProblemView);
      take(JSON.parse(one.data) as T);
    }
  }
}

interface Page<T> {
  items: T[];
  next: string | null;
}

/** Every item of a list, page by page, or the first ones. */
export async function all<T>(path: string, signal?: AbortSignal, most = Infinity): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = "";
  const joint = path.includes("?") ? "&" : "?";
  while (cursor !== null && found.length < most) {
    const more: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    const page: Page<T> = await call<Page<T>>(`${path}${joint}limit=500${more}`, signal ? { signal } : {});
    found.push(...page.items);
    cursor = page.next;
  }
  return found;
}
