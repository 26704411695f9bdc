// What the pages of bookings say: when each is, for whom, and what becomes of the sessions in its way. Pure.
import { duration, plural } from "./format.ts";
import type { BookingBody, BookingEvictionView } from "./wire.ts";

/** Whether it is still to come, goes on, or is over, and for how long. */
export function whenText(one: BookingBody, nowMs: number): string {
  const [from, to] = [Date.parse(one.starts_at), Date.parse(one.ends_at)];
  if (nowMs < from) return `begins in ${duration((from - nowMs) / 1000)}`;
  return nowMs < to ? `now, ends in ${duration((to - nowMs) / 1000)}` : "over";
}

// Agents that a line names.
const NAMED = 3;

/** Which agents it has, in one line. */
export function agentsText(one: BookingBody): string {
  const agents = one.agents ?? [];
  const more = agents.length > NAMED + 1 ? ` and ${agents.length - NAMED} more` : "";
  return one.hypernode ? `all of ${one.hypernode}` : agents.slice(0, more ? NAMED : agents.length).join(", ") + more;
}

/** Who may use it, as far as the reader may know. */
export function ownersText(one: BookingBody): string {
  const owners = [["user", one.users], ["group", one.groups], ["queue", one.queues]] as const;
  return owners.flatMap(([kind, names]) => (names ?? []).map((name) => `${kind} ${name}`)).join(", ");
}

/** How much of a session leaves. */
export function partText(one: BookingEvictionView): string {
  return one.whole ? "all" : plural(one.kernels, "kernel");
}

const AFTERWARDS: Record<string, string> = { requeue: "waits again", shrink: "goes on with fewer kernels", end: "ends" };

/** What becomes of a session that leaves. */
export function afterwards(one: BookingEvictionView): string {
  return AFTERWARDS[one.then] ?? one.then;
}
