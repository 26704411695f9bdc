// Measurements of the kernels of a session as lines over time. Pure.
import type { Step } from "./timeline.ts";
import type { KernelUseView, SessionMetricsView } from "./wire.ts";

// A quarter of an hour at one measurement every two seconds; older ones are dropped.
export const POINTS_MAX = 450;

export interface Use {
  view: SessionMetricsView;
  /** When the answer came, by the clock of the browser. */
  at: number;
  /** Thousandths of cores between two measurements, by the index of the kernel. */
  cores: ReadonlyMap<number, number>;
  /** Sums over the kernels. */
  cpu: readonly Step[];
  memory: readonly Step[];
}

/** Thousandths of cores that a kernel used between two measurements; null if they cannot be compared. */
export function coresOf(before: KernelUseView | undefined, now: KernelUseView): number | null {
  if (!before || before.cpu_ms === null || now.cpu_ms === null || before.sampled_ms === null || now.sampled_ms === null) return null;
  const passed = now.sampled_ms - before.sampled_ms;
  // A kernel that was started again counts from 0.
  return passed > 0 ? Math.round((1000 * Math.max(0, now.cpu_ms - before.cpu_ms)) / passed) : null;
}

/** The lines with one more measurement. */
export function nextUse(before: Use | null, view: SessionMetricsView, at: number): Use {
  const earlier = new Map((before?.view.items ?? []).map((one) => [one.index, one]));
  const cores = new Map<number, number>();
  for (const one of view.items) {
    const last = earlier.get(one.index);
    const same = one.sampled_ms !== null && last?.sampled_ms === one.sampled_ms;
    const used = same ? before?.cores.get(one.index) : coresOf(last, one);
    if (used !== null && used !== undefined) cores.set(one.index, used);
  }
  const held = view.items.flatMap((one) => (one.memory_bytes === null ? [] : [one.memory_bytes]));
  return {
    view, at, cores,
    // What was used until now began with the measurement before.
    cpu: added(before?.cpu ?? [], before?.at ?? at, [...cores.values()]),
    memory: added(before?.memory ?? [], at, held),
  };
}

function added(steps: readonly Step[], at: number, values: readonly number[]): readonly Step[] {
  if (!values.length) return steps;
  return [...steps, { at, devices: values.reduce((sum, one) => sum + one, 0) }].slice(-POINTS_MAX);
}

/** What the measured kernels asked for of a slot, together. */
export function askedOf(view: SessionMetricsView, slot: string): number {
  return view.items.reduce((sum, one) => sum + (one.slots[slot] ?? 0), 0);
}
