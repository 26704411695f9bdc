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

interface Options {
  method?: string;
  body?: unknown;
  key?: string;
  signal?: AbortSignal;
}

function unreachable(): ProblemView {
  return {
    type: "", title: "No answer", status: 0, detail: "the server does not answer", code: "unreachable",
    hint: "check that it runs: sokovan status", request_id: "", problems: [],
  };
}

/** The answer to a request. Throws Problem. */
export async function call<T>(path: string, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = { "X-Sokovan-Proof": proof.value };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.key) headers["Idempotency-Key"] = options.key;
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method: options.method ?? "GET",
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem(unreachable());
  }
  if (answer.status === 401) leave();
  if (!answer.ok) throw new Problem((await answer.json()) as ProblemView);
  return answer.status === 204 ? (undefined as T) : ((await answer.json()) as T);
}

/** Send a request and take the parts of its answer as they come. Throws Problem. */
export async function streamed<T>(path: string, body: unknown, signal: AbortSignal, take: (part: T) => void): Promise<void> {
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method: "POST", headers: { "X-Sokovan-Proof": proof.value, "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Problem(unreachable());
  }
  if (answer.status === 401) leave();
  if (!answer.ok || !answer.body) throw new Problem((await answer.json()) as ProblemView);
  const reader = answer.body.getReader();
  const parser = new EventReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
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
