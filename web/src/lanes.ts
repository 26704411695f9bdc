// The history of a session as lanes: one per kernel, each a row of states with their times. Pure.
import type { HistoryLine } from "./wire.ts";

export interface Span {
  status: string;
  from: number;
  to: number;
}

export interface Lane {
  subject: string;
  spans: Span[];
}

const FINAL: ReadonlySet<string> = new Set(["terminated", "cancelled"]);

/** Lanes in the order in which their subjects first appear; the session itself is the first. */
export function lanesOf(session: string, lines: readonly HistoryLine[], nowMs: number): Lane[] {
  const lanes = new Map<string, Lane>([[session, { subject: session, spans: [] }]]);
  for (const line of lines) {
    const lane = lanes.get(line.subject) ?? { subject: line.subject, spans: [] };
    lanes.set(line.subject, lane);
    const last = lane.spans.at(-1);
    if (last?.status === line.after) continue;
    const at = Date.parse(line.at);
    if (last) last.to = at;
    lane.spans.push({ status: line.after, from: at, to: FINAL.has(line.after) ? at : nowMs });
  }
  return [...lanes.values()].filter((lane) => lane.spans.length > 0);
}

/** The time that all lanes cover. */
export function extent(lanes: readonly Lane[]): [number, number] {
  const spans = lanes.flatMap((lane) => lane.spans);
  if (!spans.length) return [0, 1];
  const from = spans.reduce((least, span) => Math.min(least, span.from), Infinity);
  const to = spans.reduce((most, span) => Math.max(most, span.to), -Infinity);
  return [from, Math.max(to, from + 1)];
}
