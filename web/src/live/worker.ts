// One per browser: it holds the only stream of events and the list of sessions for all tabs.
//
// Browsers give a server six connections; with a stream per tab the seventh tab would hang.
import type { EventView, SessionRowView as ListedSession, SessionRowPage } from "../wire.ts";
import { EventReader } from "../events.ts";
import { rowOf, type SessionRow } from "../rows.ts";
import type { FromWorker, ToWorker } from "./messages.ts";

const PAGE = 500;
const ROWS_MAX = 10_000;
// Changes are collected for this long, so that a busy server does not make a busy page.
const COLLECT_MS = 200;
// Sessions that one request names; above the second number the whole list is read again.
const NAMED_MAX = 200;
const CHANGED_MAX = 2_000;
// A new reason is an event. Its text, such as a place in the queue, changes without one: it is read now and then.
const WAITING_MS = 15_000;
const WAITING_ROWS = 200;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;

interface Line {
  postMessage(message: FromWorker): void;
}

const lines = new Set<Line>();
const rows = new Map<string, SessionRow>();
const dirty = new Set<string>();
const fresh: EventView[] = [];
let proof = "";
// Where the stream is resumed after a break.
let place = "";
let running: AbortController | null = null;
let cut = false;
let many = false;
let ready = false;
let up = false;
let heardAt = 0;
let timer: ReturnType<typeof setTimeout> | null = null;

function tell(message: FromWorker): void {
  for (const line of lines) line.postMessage(message);
}

function setUp(now: boolean): void {
  up = now;
  heardAt = Date.now();
  tell({ kind: "line", up, at: heardAt });
}

async function get<T>(path: string, signal: AbortSignal): Promise<T | null> {
  const answer = await fetch(`/api/v1/${path}`, { headers: { "X-Sokovan-Proof": proof }, signal });
  if (answer.status === 401) throw new Denied();
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return (await answer.json()) as T;
}

class Denied extends Error {}

async function readAll(signal: AbortSignal): Promise<void> {
  const found = new Map<string, SessionRow>();
  let cursor: string | null = "";
  while (cursor !== null && found.size < ROWS_MAX) {
    const query: string = `sessions/rows?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
    const page: SessionRowPage | null = await get<SessionRowPage>(query, signal);
    for (const view of page?.items ?? []) found.set(view.id, rowOf(view));
    cursor = page?.next ?? null;
  }
  cut = cursor !== null;
  rows.clear();
  for (const [id, row] of found) rows.set(id, row);
  ready = true;
  tell({ kind: "sessions", rows: [...rows.values()], whole: true, cut });
}

async function readChanged(signal: AbortSignal): Promise<void> {
  timer = null;
  if (fresh.length) tell({ kind: "events", events: fresh.splice(0) });
  const ids = [...dirty];
  dirty.clear();
  if (many || ids.length > CHANGED_MAX) {
    many = false;
    return readAll(signal);
  }
  for (let at = 0; at < ids.length; at += NAMED_MAX) {
    const named = ids.slice(at, at + NAMED_MAX).map(encodeURIComponent).join(",");
    keep((await get<SessionRowPage>(`sessions/rows?id=${named}&limit=${NAMED_MAX}`, signal))?.items ?? []);
  }
}

function keep(views: readonly ListedSession[]): void {
  const changed = views.map(rowOf);
  for (const row of changed) rows.set(row.id, row);
  if (changed.length) tell({ kind: "sessions", rows: changed, whole: false, cut });
}

async function readWaiting(signal: AbortSignal): Promise<void> {
  if (!ready || !lines.size) return;
  const page = await get<SessionRowPage>(`sessions/rows?status=pending&limit=${WAITING_ROWS}`, signal);
  keep((page?.items ?? []).filter((view) => rows.get(view.id)?.detail !== view.reason_detail || !rows.has(view.id)));
}

function noted(event: EventView, signal: AbortSignal): void {
  fresh.push(event);
  if (event.object === "session") dirty.add(event.id);
  if (event.object === "verdicts") {
    for (const id of event.sessions ?? []) dirty.add(id);
    // Only the first are named.
    if ((event.count ?? 0) > (event.sessions ?? []).length) many = true;
  }
  if (timer === null) timer = setTimeout(() => void readChanged(signal).catch(forget), COLLECT_MS);
}

/** Some changes could not be read: the next ones read the whole list. */
function forget(): void {
  many = true;
  place = "";
}

async function follow(signal: AbortSignal): Promise<void> {
  const resumes = ready && place !== "";
  const headers: Record<string, string> = { "X-Sokovan-Proof": proof, ...(resumes ? { "Last-Event-ID": place } : {}) };
  const answer = await fetch("/api/v1/events", { headers, signal });
  if (answer.status === 401) throw new Denied();
  if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
  // From here on nothing is missed; so the list is read now, unless the server sends what it has missed.
  if (!resumes) await readAll(signal);
  setUp(true);
  const reader = answer.body.getReader();
  const parser = new EventReader();
  parser.place = place;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heardAt = Date.now();
    for (const one of parser.push(value)) {
      if (one.event === "change") noted(JSON.parse(one.data) as EventView, signal);
      if (one.event === "resync") await readAll(signal);
      if (one.event === "problem") return;
    }
    place = parser.place;
  }
}

async function run(signal: AbortSignal): Promise<void> {
  let wait = RETRY_MS;
  const waiting = setInterval(() => void readWaiting(signal).catch(() => undefined), WAITING_MS);
  signal.addEventListener("abort", () => clearInterval(waiting));
  while (!signal.aborted) {
    const began = Date.now();
    try {
      await follow(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Denied) {
        stop();
        tell({ kind: "denied" });
        return;
      }
    }
    if (signal.aborted) return;
    setUp(false);
    wait = Date.now() - began > RETRY_MAX_MS ? RETRY_MS : Math.min(RETRY_MAX_MS, wait * 2);
    await new Promise((done) => setTimeout(done, wait));
  }
}

function stop(): void {
  running?.abort();
  running = null;
  ready = false;
  place = "";
  rows.clear();
  dirty.clear();
}

function heard(line: Line, message: ToWorker): void {
  switch (message.kind) {
    case "open":
      lines.add(line);
      if (message.proof !== proof || running === null) {
        stop();
        proof = message.proof;
        running = new AbortController();
        void run(running.signal);
      } else if (ready) {
        line.postMessage({ kind: "sessions", rows: [...rows.values()], whole: true, cut });
        line.postMessage({ kind: "line", up, at: heardAt });
      }
      return;
    case "refresh":
      if (running) void readAll(running.signal).catch(() => undefined);
      return;
    case "close":
      lines.delete(line);
      if (!lines.size) stop();
  }
}

const scope = self as unknown as {
  onconnect: ((event: MessageEvent) => void) | null;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage?: (message: FromWorker) => void;
};

scope.onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  lines.add(port);
  port.onmessage = (told: MessageEvent<ToWorker>) => heard(port, told.data);
};
// Without shared workers each tab has a worker of its own.
if (scope.postMessage) {
  const own: Line = { postMessage: (message) => scope.postMessage?.(message) };
  lines.add(own);
  scope.onmessage = (told) => heard(own, told.data);
}
