// One per browser: it holds the only stream of events and the list of sessions for all tabs.
//
// Browsers give a server six connections; with a stream per tab the seventh tab would hang.
import type { EventView, SessionRowView as ListedSession, SessionRowPage } from "../wire.ts";
import { EventReader } from "../events.ts";
import { rowOf, type SessionRow } from "../rows.ts";
import { FIRST_ROWS, Held, MORE_ROWS, NAMED_MAX } from "./held.ts";
import type { FromWorker, ToWorker } from "./messages.ts";

// The first change is read at once. What follows is collected for some times as long as that read took, so that
// a busy server does not make a busy page, and a page no busy server.
const COLLECT_MS = 5;
const REST_TIMES = 4;
const REST_MIN_MS = 50;
const REST_MAX_MS = 1_000;
// A new reason is an event. Its text, such as a place in the queue, changes without one: it is read now and then.
const WAITING_MS = 15_000;
// Events that are told to the tabs at once, the last ones.
const EVENTS_TOLD = 200;
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;

interface Line {
  postMessage(message: FromWorker): void;
}

// Each tab, with the sessions that it watches.
const lines = new Map<Line, ReadonlySet<string>>();
const held = new Held();
let fresh: EventView[] = [];
let proof = "";
// Where the stream is resumed after a break.
let place = "";
let running: AbortController | null = null;
let up = false;
let heardAt = 0;
let timer: ReturnType<typeof setTimeout> | null = null;
let reading = false;
let growing = false;
let restUntil = 0;

function tell(message: FromWorker): void {
  for (const line of lines.keys()) line.postMessage(message);
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
  const found: SessionRow[] = [];
  let cursor: string | null = "";
  while (cursor !== null && found.length < held.wanted) {
    const limit = held.wanted > FIRST_ROWS ? MORE_ROWS : FIRST_ROWS;
    const page = await readPage(limit, cursor, signal);
    found.push(...page.rows);
    cursor = page.next;
  }
  held.replace(found, cursor);
  tell(theList());
  await readNamed([...watched()].filter((id) => !held.rows.has(id)).slice(0, NAMED_MAX), signal);
}

/** The older sessions that follow those of the list. */
async function readMore(signal: AbortSignal): Promise<void> {
  const { cursor } = held;
  if (growing || cursor === null || !held.canGrow) return;
  growing = true;
  try {
    const page = await readPage(MORE_ROWS, cursor, signal);
    // The list was read again meanwhile: the page need not be the one that follows.
    if (held.cursor !== cursor) return;
    held.extend(page.rows, page.next);
    tell({ kind: "sessions", rows: page.rows, whole: false, cut: held.cut });
  } finally {
    growing = false;
  }
}

async function readPage(limit: number, cursor: string, signal: AbortSignal): Promise<{ rows: SessionRow[]; next: string | null }> {
  const page = await get<SessionRowPage>(`sessions/rows?limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
  return { rows: (page?.items ?? []).map(rowOf), next: page?.next ?? null };
}

async function readNamed(ids: readonly string[], signal: AbortSignal, isNew: (view: ListedSession) => boolean = () => true): Promise<void> {
  if (!ids.length) return;
  const page = await get<SessionRowPage>(`sessions/rows?id=${ids.map(encodeURIComponent).join(",")}&limit=${NAMED_MAX}`, signal);
  keep((page?.items ?? []).filter(isNew));
}

async function readChanged(signal: AbortSignal): Promise<void> {
  tell({ kind: "events", events: fresh.slice(-EVENTS_TOLD) });
  fresh = [];
  const due = held.take();
  await (due.whole ? readAll(signal) : readNamed(due.ids, signal));
}

/** Read what has changed, now or when the last read is long enough ago. */
function readSoon(signal: AbortSignal): void {
  if (timer === null && !reading) timer = setTimeout(() => void readNow(signal), Math.max(COLLECT_MS, restUntil - Date.now()));
}

async function readNow(signal: AbortSignal): Promise<void> {
  timer = null;
  reading = true;
  const began = Date.now();
  try {
    await readChanged(signal);
  } catch {
    // The next change reads the whole list.
    held.forget();
    place = "";
  }
  reading = false;
  const ended = Date.now();
  restUntil = ended + Math.min(REST_MAX_MS, Math.max(REST_MIN_MS, REST_TIMES * (ended - began)));
  if (fresh.length && running) readSoon(running.signal);
}

function keep(views: readonly ListedSession[]): void {
  const changed = views.map(rowOf);
  const listed = held.update(changed);
  const inside = changed.filter((_, at) => listed[at]);
  const outside = changed.filter((_, at) => !listed[at]);
  if (inside.length) tell({ kind: "sessions", rows: inside, whole: false, cut: held.cut });
  if (outside.length) tell({ kind: "apart", rows: outside });
}

async function readWaiting(signal: AbortSignal): Promise<void> {
  if (held.ready && lines.size) await readNamed(held.waiting(), signal, (view) => held.rows.get(view.id)?.detail !== view.reason_detail);
}

function theList(): FromWorker {
  return { kind: "sessions", rows: [...held.rows.values()], whole: true, cut: held.cut };
}

function* watched(): Generator<string> {
  for (const ids of lines.values()) yield* ids;
}

function isWatched(id: string): boolean {
  for (const ids of lines.values()) if (ids.has(id)) return true;
  return false;
}

function noted(event: EventView, signal: AbortSignal): void {
  fresh.push(event);
  held.note(event, isWatched);
  readSoon(signal);
}

async function follow(signal: AbortSignal): Promise<void> {
  const resumes = held.ready && place !== "";
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
  if (timer !== null) clearTimeout(timer);
  timer = null;
  restUntil = 0;
  place = "";
  fresh = [];
  held.clear();
}

function heard(line: Line, message: ToWorker): void {
  switch (message.kind) {
    case "open":
      lines.set(line, lines.get(line) ?? new Set());
      if (message.proof !== proof || running === null) {
        stop();
        proof = message.proof;
        running = new AbortController();
        void run(running.signal);
      } else if (held.ready) {
        line.postMessage(theList());
        line.postMessage({ kind: "line", up, at: heardAt });
      }
      return;
    case "refresh":
      if (running) void readAll(running.signal).catch(() => undefined);
      return;
    case "more":
      if (running) void readMore(running.signal).catch(() => undefined);
      return;
    case "watch":
      lines.set(line, new Set(message.ids));
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
  lines.set(port, new Set());
  port.onmessage = (told: MessageEvent<ToWorker>) => heard(port, told.data);
};
// Without shared workers each tab has a worker of its own.
if (scope.postMessage) {
  const own: Line = { postMessage: (message) => scope.postMessage?.(message) };
  lines.set(own, new Set());
  scope.onmessage = (told) => heard(own, told.data);
}
