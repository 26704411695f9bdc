// The tab's side of the worker: the sessions, the events, and whether the line is up.
import { computed, signal } from "@preact/signals";
import type { EventView } from "../wire.ts";
import { byAge, type SessionRow } from "../rows.ts";
import { leave, proof } from "../login.ts";
import type { FleetMessage, FromWorker, ToWorker } from "./messages.ts";

const EVENTS_KEPT = 200;

const table = new Map<string, SessionRow>();
// Sessions that this tab watches, older than those of the table.
const apart = new Map<string, SessionRow>();
const version = signal(0);

export const loaded = signal(false);
export const cut = signal(false);
export const lineUp = signal(true);
export const heardAt = signal(Date.now());
/** The last events, newest first. */
export const recent = signal<EventView[]>([]);
/** Now, by the second, for ages. */
export const now = signal(Date.now());
/** Counts changes of agents and kernels, and what may have changed unseen, for pages that read figures of the cluster. */
export const clusterTick = signal(0);
// What changes without an event is read again this often.
const UNTOLD_MS = 15_000;
// A page that nobody sees reads nothing by itself, so that its login can end.
const untold = signal(0);
/** As `clusterTick`, and now and then, for what has no events or not of each change: items, keys, entries of logs. */
export const untoldTick = computed(() => `${clusterTick.value} ${untold.value}`);
/** Counts when everything that a page shows is to be read again: someone asks for it, or the line was down. */
export const again = signal(0);
export const sessions = computed(() => {
  version.value;
  return [...table.values()].sort(byAge);
});

let post: ((message: ToWorker) => void) | null = null;
let painting = false;
let fleetHeard: ((message: FleetMessage) => void) | null = null;

export function sessionRow(id: string): SessionRow | undefined {
  version.value;
  return table.get(id) ?? apart.get(id);
}

/** What is known now of sessions that were read earlier. */
export function newest(rows: readonly SessionRow[]): SessionRow[] {
  return rows.map((row) => sessionRow(row.id) ?? row);
}

function paint(): void {
  if (painting) return;
  painting = true;
  // Hidden tabs get no frames; they catch up when they are shown.
  requestAnimationFrame(() => {
    painting = false;
    version.value += 1;
  });
}

function heard(message: FromWorker): void {
  switch (message.kind) {
    case "sessions":
      if (message.whole) table.clear();
      for (const row of message.rows) table.set(row.id, row);
      // Changes were missed, or are too many to be named. What a page reads first is new anyway.
      if (message.whole && loaded.value) clusterTick.value += 1;
      loaded.value = true;
      cut.value = message.cut;
      heardAt.value = Date.now();
      paint();
      return;
    case "apart":
      for (const row of message.rows) apart.set(row.id, row);
      paint();
      return;
    case "events":
      recent.value = [...message.events.filter((one) => one.object !== "verdicts").reverse(), ...recent.value].slice(0, EVENTS_KEPT);
      heardAt.value = Date.now();
      clusterTick.value += 1;
      return;
    case "fleet":
      fleetHeard?.(message);
      return;
    case "line":
      if (message.up && !lineUp.value) again.value += 1;
      lineUp.value = message.up;
      heardAt.value = message.at;
      return;
    case "denied":
      leave();
  }
}

interface ScriptPolicy {
  createScriptURL(url: string): string;
}

interface TrustedTypes {
  createPolicy(name: string, rules: ScriptPolicy): ScriptPolicy;
}

/** The address of the worker, which is the only script that this page starts by address. */
function workerAddress(): string {
  const named = document.querySelector<HTMLScriptElement>("script[data-worker]")?.dataset["worker"] ?? "";
  const types = (window as { trustedTypes?: TrustedTypes }).trustedTypes;
  const policy = types?.createPolicy("sokovan", { createScriptURL: (url) => (url === named ? url : "") });
  return policy ? policy.createScriptURL(named) : named;
}

export function connect(): void {
  if (!post) {
    const address = workerAddress();
    if (typeof SharedWorker === "undefined") {
      const worker = new Worker(address, { type: "module" });
      worker.onmessage = (event: MessageEvent<FromWorker>) => heard(event.data);
      post = (message) => worker.postMessage(message);
    } else {
      const { port } = new SharedWorker(address, { type: "module", name: "sokovan" });
      port.onmessage = (event: MessageEvent<FromWorker>) => heard(event.data);
      post = (message) => port.postMessage(message);
    }
    addEventListener("pagehide", () => post?.({ kind: "close" }));
    addEventListener("pageshow", (event) => event.persisted && location.reload());
    setInterval(() => {
      now.value = Date.now();
      if (document.visibilityState === "visible") untold.value = Math.floor(now.value / UNTOLD_MS);
    }, 1000);
  }
  post({ kind: "open", proof: proof.value });
  // A page may be shown before there is a worker.
  if (fleetHeard) post({ kind: "fleet", shown: true });
}

export function disconnect(): void {
  post?.({ kind: "close" });
  table.clear();
  apart.clear();
  loaded.value = false;
}

/** Follow the fleet, or no more. */
export function followFleet(heard: typeof fleetHeard): void {
  fleetHeard = heard;
  post?.({ kind: "fleet", shown: heard !== null });
}

/** Read everything again now. */
export function refresh(): void {
  again.value += 1;
  post?.({ kind: "refresh" });
}

/** Read the older sessions that follow those of the list. */
export function readMore(): void {
  post?.({ kind: "more" });
}

/** Keep these sessions up to date, though they may not be in the list. */
export function watch(ids: readonly string[]): void {
  apart.clear();
  post?.({ kind: "watch", ids: [...ids] });
}
