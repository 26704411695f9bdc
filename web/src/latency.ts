// How long the answers of deployments took lately, in words. Pure.
import { plural, trimmed } from "./format.ts";
import type { LatencyView } from "./wire.ts";

/** A time as people write it: 340 ms, 1.2 s. */
export function millis(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${trimmed(ms / 1_000)} s`;
}

/** For half of the answers, and for 95 of 100. */
export function percentilesText(median: number, most: number): string {
  return `${millis(median)} / ${millis(most)}`;
}

/** What was measured: so many answers in so many minutes. */
export function measuredText(latency: LatencyView): string {
  return `p50 / p95 of ${plural(latency.answers, "answer")} in ${plural(Math.round(latency.window_s / 60), "minute")}`;
}

/** The times of a replica in one sentence; empty if it has answered nothing lately. */
export function latencyLine(latency: LatencyView | null): string {
  if (!latency) return "";
  const whole = latency.whole_answers ? `, ${percentilesText(latency.whole_p50_ms, latency.whole_p95_ms)} to the end` : "";
  return `${percentilesText(latency.first_p50_ms, latency.first_p95_ms)} to the first token${whole}`;
}

export interface LatencyPoint {
  at: number;
  first: number;
  whole: number;
}

// At one every five seconds, half an hour.
export const POINTS_MAX = 360;

/** The points so far and those of now; without answers the line is at nothing. */
export function nextPoints(points: readonly LatencyPoint[], latency: LatencyView | null, at: number): LatencyPoint[] {
  return [...points, { at, first: latency?.first_p95_ms ?? 0, whole: latency?.whole_p95_ms ?? 0 }].slice(-POINTS_MAX);
}
