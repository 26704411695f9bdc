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

/** Something that has a lane, in the state that it is in now. */
export interface Subject {
  id: string;
  status: string;
  since: string;
}

/**
 * Lanes of the subjects in their order; lines about others are left out. A subject whose history was not read to its end
 * goes on in the state that it is in.
 */
export function lanesOf(subjects: readonly Subject[], lines: readonly HistoryLine[], nowMs: number): Lane[] {
  const lanes = new Map<string, Lane>(subjects.map(({ id }) => [id, { subject: id, spans: [] }]));
  const move = (lane: Lane, status: string, at: number): void => {
    const last = lane.spans.at(-1);
    if (last?.status === status) return;
    if (last) last.to = at;
    lane.spans.push({ status, from: at, to: FINAL.has(status) ? at : nowMs });
  };
  for (const line of lines) {
    const lane = lanes.get(line.subject);
    if (lane) move(lane, line.after, Date.parse(line.at));
  }
  for (const { id, status, since } of subjects) {
    const lane = lanes.get(id);
    const at = Date.parse(since);
    // The history may be newer than what is known of the subject.
    if (lane && at > (lane.spans.at(-1)?.from ?? -Infinity)) move(lane, status, at);
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
