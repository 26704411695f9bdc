// Sessions as bars over time, and the devices that they hold together. Pure.
import type { SessionRow } from "./rows.ts";
import { ENDED } from "./states.ts";
import type { UsageHistoryView } from "./wire.ts";

export interface Bar {
  row: SessionRow;
  /** Milliseconds: submitted, given its slots, ended; the last two may still be to come. */
  submitted: number;
  began: number | null;
  ended: number | null;
}

export interface Step {
  at: number;
  devices: number;
}

export function barOf(row: SessionRow): Bar {
  const ended = row.ended_at === null ? null : Date.parse(row.ended_at);
  const began = row.scheduled_at === null || row.status === "pending" ? null : Date.parse(row.scheduled_at);
  return { row, submitted: Date.parse(row.submitted_at), began, ended: ENDED.has(row.status) ? (ended ?? Date.parse(row.since)) : null };
}

/** The bars that reach into a span of time, in the order in which they began, the waiting ones last. */
export function barsIn(rows: readonly SessionRow[], from: number, to: number): Bar[] {
  const found = rows.map(barOf).filter((bar) => bar.submitted <= to && (bar.ended === null || bar.ended >= from));
  return found.sort((one, other) => (one.began ?? Infinity) - (other.began ?? Infinity) || one.submitted - other.submitted || one.row.name.localeCompare(other.row.name, "en", { numeric: true }));
}

/** How many devices were held from each time on, within a span. */
export function heldOver(rows: readonly SessionRow[], from: number, to: number): Step[] {
  const changes = new Map<number, number>([[from, 0]]);
  const add = (at: number, devices: number) => changes.set(at, (changes.get(at) ?? 0) + devices);
  for (const bar of rows.map(barOf)) {
    if (!bar.row.devices || bar.began === null || bar.began > to || (bar.ended !== null && bar.ended <= from)) continue;
    add(Math.max(from, bar.began), bar.row.devices);
    if (bar.ended !== null && bar.ended <= to) add(bar.ended, -bar.row.devices);
  }
  let devices = 0;
  return [...changes].sort((one, other) => one[0] - other[0]).map(([at, change]) => ({ at, devices: (devices += change) }));
}

export interface Series {
  name: string;
  slot: string;
  steps: Step[];
}

/** Held slots over time as lines of steps, those that held the most first. */
export function seriesOf(view: UsageHistoryView, slot: string): Series[] {
  const since = Date.parse(view.since);
  const total = (used: readonly number[]) => used.reduce((sum, one) => sum + one, 0);
  return view.items
    .filter((one) => one.slot === slot)
    .sort((one, other) => total(other.used) - total(one.used) || one.name.localeCompare(other.name))
    .map((one) => ({ name: one.name, slot, steps: one.used.map((value, index) => ({ at: since + index * view.step_s * 1000, devices: value })) }));
}

const UNITS: Record<string, readonly [number, string]> = { cpu: [1000, "a core"], mem: [2 ** 30, "a GiB"] };

function unit(slot: string): readonly [number, string] {
  return UNITS[slot] ?? (slot.endsWith(".shares") ? [1000, "a device"] : slot.endsWith(".mem") ? [2 ** 30, "a GiB"] : [1, "a device"]);
}

export function unitOf(slot: string): string {
  return unit(slot)[1];
}

/** For how many hours one core, GiB or device was held. */
export function hoursOf(slot: string, steps: readonly Step[], stepSeconds: number): string {
  const held = steps.reduce((sum, step) => sum + step.devices, 0) / unit(slot)[0];
  return ((held * stepSeconds) / 3600).toFixed(1);
}

/** The line of steps as the path of a drawing of this size. */
export function pathOf(steps: readonly Step[], from: number, to: number, most: number, width: number, height: number): string {
  const x = (at: number) => (((at - from) / Math.max(1, to - from)) * width).toFixed(1);
  const y = (devices: number) => (height - (devices / Math.max(1, most)) * height).toFixed(1);
  const parts = steps.map((step, index) => (index ? `H${x(step.at)}V${y(step.devices)}` : `M${x(step.at)} ${y(step.devices)}`));
  return parts.length ? `${parts.join("")}H${x(to)}` : "";
}

/** The average, weighted by time. */
export function averageOf(steps: readonly Step[], to: number): number {
  const first = steps[0];
  if (!first) return 0;
  // One measurement that was just made is all that is known.
  if (to <= first.at) return first.devices;
  const area = steps.reduce((sum, step, index) => sum + step.devices * ((steps[index + 1]?.at ?? to) - step.at), 0);
  return area / (to - first.at);
}

/** Times for marks on an axis: a handful, at round distances of a clock that is `ahead` of UTC. */
export function marksOf(from: number, to: number, most = 8, ahead = 0): number[] {
  const minute = 60_000;
  const lengths = [1, 5, 10, 15, 30, 60, 180, 360, 720, 1440, 2880, 10080].map((minutes) => minutes * minute);
  const every = lengths.find((length) => (to - from) / length <= most) ?? 10080 * minute;
  const found: number[] = [];
  for (let at = Math.ceil((from + ahead) / every) * every - ahead; at <= to; at += every) found.push(at);
  return found;
}

export type Side = "after" | "before" | "none";

/** Where the text of each mark stands, if it takes this long: not cut, not across now, and not on another text. */
export function sidesOf(marks: readonly number[], from: number, to: number, now: number, length: number): Side[] {
  let free = from;
  return marks.map((at) => {
    const begin = [at, at - length].find((one) => one >= free && one + length <= to && (now <= one || now >= one + length));
    if (begin === undefined) return "none";
    free = begin + length;
    return begin === at ? "after" : "before";
  });
}
