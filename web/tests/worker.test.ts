import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { FIRST_ROWS, Held, MORE_ROWS } from "../src/live/held.ts";
import { type Channel, type Line, type Said, Tab } from "../src/live/leader.ts";
import type { FromWorker, ToWorker } from "../src/live/messages.ts";
import { rowOf, type SessionRow } from "../src/rows.ts";
import type { EventView, SessionRowPage, SessionRowView } from "../src/wire.ts";

const SESSIONS = 10_000;
const encoder = new TextEncoder();

function idOf(number: number): string {
  return `s-${String(number).padStart(6, "0")}`;
}

function viewOf(number: number): SessionRowView {
  return { id: idOf(number), name: `n${number}`, status: "running", slots: {}, submitted_at: idOf(number) } as unknown as SessionRowView;
}

function rowsFrom(first: number, count: number): SessionRow[] {
  return Array.from({ length: count }, (_, at) => rowOf(viewOf(first - at)));
}

function moved(id: string): EventView {
  return { object: "session", id, before: null, after: "running", trigger: "", at: "", count: 0, sessions: [] };
}

function reasons(count: number, sessions: string[]): EventView {
  return { ...moved(""), object: "verdicts", count, sessions };
}

function full(): Held {
  const held = new Held();
  held.replace(rowsFrom(SESSIONS, FIRST_ROWS), "next");
  return held;
}

const NOBODY = () => false;

test("changes of sessions below the list are read only if a tab watches them", () => {
  const held = full();
  const old = idOf(5);
  held.note(moved(old), NOBODY);
  assert.deepEqual(held.take(), { whole: false, ids: [] });
  held.note(moved(old), (id) => id === old);
  held.note(moved(idOf(SESSIONS)), NOBODY);
  held.note(moved(idOf(SESSIONS + 1)), NOBODY);
  assert.deepEqual(held.take(), { whole: false, ids: [old, idOf(SESSIONS), idOf(SESSIONS + 1)] });
  assert.deepEqual(held.update([rowOf(viewOf(5)), rowOf(viewOf(SESSIONS + 1))]), [false, true]);
  assert.equal(held.rows.has(old), false);
});

test("a browser that holds every session reads every change", () => {
  const held = new Held();
  held.replace(rowsFrom(9, 3), null);
  held.note(moved(idOf(1)), NOBODY);
  assert.deepEqual(held.take(), { whole: false, ids: [idOf(1)] });
  assert.deepEqual(held.update([rowOf(viewOf(1))]), [true]);
});

test("more changes than a request names, or than an event names, read the list again", () => {
  const held = full();
  held.note(reasons(SESSIONS, [idOf(SESSIONS)]), NOBODY);
  assert.deepEqual(held.take(), { whole: true });
  for (let at = 0; at < 201; at += 1) held.note(moved(idOf(SESSIONS + at)), NOBODY);
  assert.deepEqual(held.take(), { whole: true });
  assert.deepEqual(held.take(), { whole: false, ids: [] });
});

test("what is held grows by scrolling, and new sessions push the oldest out", () => {
  const held = full();
  assert.equal(held.wanted, FIRST_ROWS);
  held.extend(rowsFrom(SESSIONS - FIRST_ROWS, MORE_ROWS), "more");
  assert.equal(held.wanted, FIRST_ROWS + MORE_ROWS);
  for (let at = 1; at <= 301; at += 1) held.update([rowOf(viewOf(SESSIONS + at))]);
  assert.deepEqual(held.take(), { whole: true });
  held.replace(rowsFrom(SESSIONS + 301, held.wanted), "again");
  assert.equal(held.rows.size, FIRST_ROWS + MORE_ROWS);
});

/** Workers of tabs on one channel: what each was told, and what each had to do. */
function tabs(count: number) {
  const channels: Channel[] = [];
  return Array.from({ length: count }, (_, at) => {
    const told: FromWorker[] = [];
    const work: { line: Line; message: ToWorker }[] = [];
    const postMessage = (data: Said) => channels.forEach((one, other) => other !== at && one.onmessage?.({ data } as MessageEvent<Said>));
    const channel: Channel = { postMessage, onmessage: null };
    channels.push(channel);
    return { tab: new Tab(`tab-${at}`, channel, (message) => told.push(message), (line, message) => work.push({ line, message })), told, work };
  }) as [TabOf, TabOf, TabOf];
}
interface TabOf {
  tab: Tab;
  told: FromWorker[];
  work: { line: Line; message: ToWorker }[];
}

test("of tabs without a shared worker one works for all, and the next one takes over what each wants", () => {
  const [first, second, third] = tabs(3);
  const open: ToWorker = { kind: "open", proof: "p" };
  const watch: ToWorker = { kind: "watch", ids: ["s-1"] };
  first.tab.said(open);
  second.tab.said(open);
  second.tab.said(watch);
  assert.deepEqual([first.work, second.work], [[], []]);
  first.tab.lead();
  assert.deepEqual(first.work.map((one) => one.message), [open, open, watch]);
  third.tab.said(open);
  const [own, , ofSecond, ofThird] = first.work.map((one) => one.line);
  assert.notEqual(ofSecond, ofThird);
  // Its own tab is told directly; another one by name, or all others together.
  const up: FromWorker = { kind: "line", up: true, at: 1 };
  own?.postMessage(up);
  assert.deepEqual([first.told, second.told, third.told], [[up], [], []]);
  ofSecond?.postMessage(up);
  assert.deepEqual([first.told, second.told, third.told], [[up], [up], []]);
  ofThird?.all?.(up);
  assert.deepEqual([first.told, second.told, third.told], [[up], [up, up], [up]]);
  // A tab that is logged out hears nothing, and wants nothing of the next leader.
  third.tab.said({ kind: "close" });
  assert.deepEqual(first.work.at(-1), { line: ofThird, message: { kind: "close" } });
  ofSecond?.all?.(up);
  assert.deepEqual([second.told.length, third.told.length], [3, 1]);
  first.tab.said({ kind: "close" });
  second.tab.lead();
  assert.deepEqual(second.work.map((one) => one.message), [open, watch]);
});

// The worker itself, in front of a server of 10,000 sessions that counts what it is asked.
const asked: string[] = [];
let send: (event: EventView) => void = () => undefined;

function pageOf(address: URL): SessionRowPage {
  const ids = address.searchParams.get("id");
  if (ids) return { items: ids.split(",").map((id) => viewOf(Number(id.slice(2)))), next: null };
  const limit = Number(address.searchParams.get("limit"));
  const from = Number(address.searchParams.get("cursor") ?? SESSIONS);
  const items = Array.from({ length: Math.min(limit, from) }, (_, at) => viewOf(from - at));
  return { items, next: from > limit ? String(from - limit) : null };
}

let sayAlive: () => void = () => undefined;
let resumedAt = "";

globalThis.fetch = (async (path: string, { headers, signal }: { headers: Record<string, string>; signal: AbortSignal }) => {
  const address = new URL(path, "http://127.0.0.1");
  asked.push(address.pathname.replace("/api/v1/", "") + address.search);
  if (address.pathname !== "/api/v1/events") return Response.json(pageOf(address));
  resumedAt = headers["Last-Event-ID"] ?? "";
  const body = new ReadableStream({
    start(controller) {
      signal.addEventListener("abort", () => controller.error(signal.reason));
      sayAlive = () => controller.enqueue(encoder.encode(": alive\n\n"));
      controller.enqueue(encoder.encode(": connected\nid: p.1\n\n"));
      send = (event) => controller.enqueue(encoder.encode(`event: change\ndata: ${JSON.stringify(event)}\n\n`));
    },
  });
  return new Response(body);
}) as typeof fetch;

test("a list of 10,000 sessions is one request, and a change of one session another", async () => {
  const told: FromWorker[] = [];
  let heard: () => void = () => undefined;
  const scope = { postMessage: (message: FromWorker) => (told.push(message), heard()) } as {
    postMessage: (message: FromWorker) => void;
    onmessage?: (event: { data: ToWorker }) => void;
  };
  Object.assign(globalThis, { self: scope });
  await import("../src/live/worker.ts");
  const say = (data: ToWorker) => scope.onmessage?.({ data });
  const next = async <Kind extends FromWorker["kind"]>(kind: Kind): Promise<Extract<FromWorker, { kind: Kind }>> => {
    for (;;) {
      const at = told.findIndex((one) => one.kind === kind);
      if (at >= 0) return told.splice(0, at + 1).at(-1) as Extract<FromWorker, { kind: Kind }>;
      await new Promise<void>((done) => (heard = done));
    }
  };
  say({ kind: "open", proof: "p" });
  const list = await next("sessions");
  assert.equal(list.rows.length, FIRST_ROWS);
  assert.equal(list.cut, true);
  await next("line");
  assert.deepEqual(asked.splice(0), ["events", `sessions/rows?limit=${FIRST_ROWS}`]);

  say({ kind: "watch", ids: [idOf(7)] });
  send(moved(idOf(8)));
  await next("events");
  send(moved(idOf(SESSIONS + 1)));
  assert.equal((await next("sessions")).rows[0]?.id, idOf(SESSIONS + 1));
  send(moved(idOf(7)));
  assert.equal((await next("apart")).rows[0]?.id, idOf(7));
  assert.deepEqual(asked.splice(0), [idOf(SESSIONS + 1), idOf(7)].map((id) => `sessions/rows?id=${id}&limit=200`));

  say({ kind: "more" });
  assert.equal((await next("sessions")).rows.length, MORE_ROWS);
  assert.deepEqual(asked.splice(0), [`sessions/rows?limit=${MORE_ROWS}&cursor=${SESSIONS - FIRST_ROWS}`]);
  say({ kind: "close" });
});

test("a stream that says nothing for too long is opened again where it was, and tabs know since when", async () => {
  mock.timers.enable({ apis: ["setInterval", "setTimeout", "Date"], now: 1_000_000 });
  const told: FromWorker[] = [];
  const scope = (globalThis as unknown as { self: { postMessage: (message: FromWorker) => void; onmessage: (event: { data: ToWorker }) => void } }).self;
  scope.postMessage = (message) => told.push(message);
  const settle = async () => {
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve().then(() => new Promise((done) => setImmediate(done)));
  };
  const pass = async (seconds: number) => {
    for (let at = 0; at < seconds; at += 1) {
      mock.timers.tick(1000);
      await settle();
    }
  };
  const linesTold = () => told.splice(0).flatMap((one) => (one.kind === "line" ? [[one.up, one.at]] : []));
  scope.onmessage({ data: { kind: "open", proof: "p" } });
  await settle();
  assert.deepEqual(linesTold(), [[true, 1_000_000]]);
  for (let at = 0; at < 6; at += 1) {
    await pass(15);
    sayAlive();
    await settle();
  }
  assert.deepEqual(linesTold(), []);
  const last = Date.now();
  asked.length = 0;
  await pass(40);
  assert.deepEqual(linesTold(), []);
  await pass(7);
  const [down, up] = linesTold();
  assert.deepEqual(down, [false, last]);
  assert.ok(up?.[0] === true && Number(up[1]) > last + 40_000);
  assert.deepEqual(asked.filter((one) => !one.includes("id=")), ["events"]);
  assert.equal(resumedAt, "p.1");

  // Who does not want to wait gets everything again at once.
  asked.length = 0;
  scope.onmessage({ data: { kind: "refresh" } });
  await settle();
  assert.deepEqual(asked, [`sessions/rows?limit=${FIRST_ROWS}`]);
  scope.onmessage({ data: { kind: "close" } });
  mock.timers.reset();
});
