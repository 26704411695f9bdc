// One per browser: for all tabs it holds the stream of events, the list of sessions, and the stream of the fleet.
//
// Browsers give a server six connections; with a stream per tab the seventh tab would hang.
import type { EventView, SessionRowView as ListedSession, SessionRowPage } from "../wire.ts";
import { EventReader, SILENT_MS } from "../events.ts";
import { rowOf, type SessionRow } from "../rows.ts";
import { FleetStream } from "./fleetstream.ts";
import { FIRST_ROWS, Held, MORE_ROWS, NAMED_MAX } from "./held.ts";
import { type Channel, type Line, Tab } from "./leader.ts";
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
const LISTEN_MS = 5_000;
const LOCK = "sokovan";

// Each tab, with the sessions that it watches.
const lines = new Map<Line, ReadonlySet<string>>();
const held = new Held();
const fleet = new FleetStream(opened);
let fresh: EventView[] = [];
let proof = "";
// Where the stream is resumed after a break.
let place = "";
let running: AbortController | null = null;
// The stream of now, and the reads beside it.
let stream: AbortController | null = null;
let hurry: () => void = () => undefined;
let up = false;
let heardAt = 0;
let timer: ReturnType<typeof setTimeout> | null = null;
let reading = false;
let growing = false;
let restUntil = 0;

function tell(message: FromWorker): void {
  let all: Line["all"];
  for (const line of lines.keys()) {
    if (line.all) all = line.all;
    else line.postMessage(message);
  }
  all?.(message);
}

function setUp(now: boolean): void {
  up = now;
  fleet.setUp(now);
  tell({ kind: "line", up, at: heardAt });
}

async function get<T>(path: string, signal: AbortSignal): Promise<T | null> {
  const answer = await opened(path, "", signal);
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return (await answer.json()) as T;
}

class Denied extends Error {}

/** An answer; that of a stream begins after a place, if it has one. Throws Denied. */
async function opened(path: string, after: string, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { "X-Sokovan-Proof": proof, ...(after ? { "Last-Event-ID": after } : {}) };
  const answer = await fetch(`/api/v1/${path}`, { headers, signal });
  if (answer.status === 401) throw new Denied();
  return answer;
}

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
  heardAt = Date.now();
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
function readSoon(): void {
  if (timer === null && !reading) timer = setTimeout(() => void readNow(), Math.max(COLLECT_MS, restUntil - Date.now()));
}

async function readNow(): Promise<void> {
  timer = null;
  // The next stream reads it.
  if (!stream) return;
  reading = true;
  const began = Date.now();
  try {
    await readChanged(stream.signal);
  } catch {
    // The next change reads the whole list.
    held.forget();
    place = "";
  }
  reading = false;
  const ended = Date.now();
  restUntil = ended + Math.min(REST_MAX_MS, Math.max(REST_MIN_MS, REST_TIMES * (ended - began)));
  if (fresh.length && running) readSoon();
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

function noted(event: EventView): void {
  fresh.push(event);
  held.note(event, isWatched);
  readSoon();
}

async function follow(signal: AbortSignal): Promise<void> {
  const resumes = held.ready && place !== "";
  const answer = await opened("events", resumes ? place : "", signal);
  if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
  fleet.setUp(true);
  // From here on nothing is missed; so the list is read now, unless the server sends what it has missed.
  if (!resumes) await readAll(signal);
  heardAt = Date.now();
  setUp(true);
  if (fresh.length) readSoon();
  const reader = answer.body.getReader();
  const parser = new EventReader();
  parser.place = place;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heardAt = Date.now();
    for (const one of parser.push(value)) {
      if (one.event === "change") noted(JSON.parse(one.data) as EventView);
      if (one.event === "resync") await readAll(signal);
      if (one.event === "problem") return;
    }
    place = parser.place;
  }
}

/** Follow the events until the stream ends or is silent: after a sleep, or behind a VPN that is gone, no error comes. */
async function followHeard(signal: AbortSignal): Promise<void> {
  const own = new AbortController();
  const end = () => own.abort();
  const began = Date.now();
  const listening = setInterval(() => Date.now() - Math.max(began, heardAt) > SILENT_MS && end(), LISTEN_MS);
  own.signal.addEventListener("abort", () => clearInterval(listening));
  signal.addEventListener("abort", end);
  stream = own;
  try {
    await follow(own.signal);
  } finally {
    signal.removeEventListener("abort", end);
    // Reads beside it may wait for an answer that never comes.
    end();
    if (stream === own) stream = null;
  }
}

async function run(signal: AbortSignal): Promise<void> {
  let wait = RETRY_MS;
  const waiting = setInterval(() => stream && void readWaiting(stream.signal).catch(() => undefined), WAITING_MS);
  signal.addEventListener("abort", () => clearInterval(waiting));
  while (!signal.aborted) {
    const began = Date.now();
    try {
      await followHeard(signal);
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
    await new Promise<void>((done) => {
      hurry = done;
      setTimeout(done, wait);
    });
  }
}

/** What is held is read again; without a stream, as soon as there is one, which is tried at once. */
function refresh(): void {
  fleet.refresh();
  if (up && stream) {
    void readAll(stream.signal).catch(() => undefined);
    return;
  }
  place = "";
  hurry();
}

function stop(): void {
  fleet.setUp(false);
  fleet.refresh();
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
      refresh();
      return;
    case "more":
      if (stream) void readMore(stream.signal).catch(() => undefined);
      return;
    case "watch":
      lines.set(line, new Set(message.ids));
      return;
    case "fleet":
      if (message.shown) fleet.add(line);
      else fleet.remove(line);
      return;
    case "close":
      lines.delete(line);
      fleet.remove(line);
      if (!lines.size) stop();
  }
}

const scope = self as unknown as {
  onconnect: ((event: MessageEvent) => void) | null;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage?: (message: FromWorker) => void;
  navigator?: Navigator;
};

scope.onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  lines.set(port, new Set());
  port.onmessage = (told: MessageEvent<ToWorker>) => heard(port, told.data);
};
// Without shared workers each tab has a worker of its own, and one of them the stream; without locks each has one.
if (scope.postMessage) {
  const tell = (message: FromWorker) => scope.postMessage?.(message);
  const locks = scope.navigator?.locks;
  if (locks) {
    const tab = new Tab(crypto.randomUUID(), new BroadcastChannel(LOCK) as Channel, tell, heard);
    scope.onmessage = (told) => tab.said(told.data);
    // It is held until the tab is closed.
    void locks.request(LOCK, () => {
      tab.lead();
      return new Promise(() => undefined);
    });
  } else {
    const own: Line = { postMessage: tell };
    scope.onmessage = (told) => heard(own, told.data);
  }
}
