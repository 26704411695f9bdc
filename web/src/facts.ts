// What the page of a session says about its starts, its limits and what ended its work before. Pure.
import { duration, plural } from "./format.ts";
import type { EvictionView, FailedStartView, SessionView, VictimView } from "./wire.ts";

/** For whom a session had to give way, and what that cost. */
export function evictionText(one: EvictionView): string {
  const taker = one.for_name || one.for_session || "a session of another user";
  const what = `for ${taker}: ${one.whole ? "all kernels" : plural(one.kernels, "kernel")}`;
  if (one.completed) return `${what}; it had ended by itself before, nothing was lost`;
  const saved = one.saves_every_s === null ? "its start (no checkpoint was reported)" : `its last save (it saves every ${duration(one.saves_every_s)})`;
  const since = `${one.reported ? "its last checkpoint" : saved}${one.step === null ? "" : ` (step ${one.step})`}`;
  return `${what}; ${one.lost_slot_s} slot seconds since ${since}: ${one.ended_at ? "lost" : "at stake"}`;
}

/** A session that would be evicted; one of another user has neither name nor id. */
export function victimText(one: VictimView): string {
  return one.name || one.session || "a session of another user";
}

const ADVICE: Record<string, string> = {
  WAIT: "wait", CHANGE: "change the request", ASK_ADMIN: "ask an administrator", BROKEN: "something is broken: ask an administrator",
};

/** What to do about a verdict; empty if there is nothing to do. */
export function adviceText(verdict: string): string {
  return ADVICE[verdict] ?? "";
}

export function failedStartText(one: FailedStartView): string {
  return `attempt ${one.attempt} on ${one.agent}: ${one.detail || one.code}`;
}

/** Facts that few sessions have, as names and texts. */
export function rareFacts(view: SessionView): [string, string][] {
  const found: [string, string][] = [
    ["labels", Object.entries(view.labels).map(([name, value]) => (value ? `${name}=${value}` : name)).join(", ")],
    ["held by", view.gates.join(", ")],
    ["time limit", view.time_limit_s === null ? "" : duration(view.time_limit_s)],
    ["attempt", view.failed_starts.length || view.attempt > 1 ? `${view.attempt} of ${Math.max(view.attempt, view.retry.attempts ?? 1)}` : ""],
  ];
  return found.filter(([, text]) => text);
}

/** How far away a time is that is still to come; empty once it has come. */
export function timeTo(at: string | null, nowMs: number): string {
  const left = at === null ? 0 : Date.parse(at) - nowMs;
  return left > 0 ? `in ${duration(left / 1000)}` : "";
}
