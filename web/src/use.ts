// Measurements of the kernels of a session as lines over time. Pure.
import type { Step } from "./timeline.ts";
import type { DeviceFiguresView, KernelUseView, SessionMetricsView } from "./wire.ts";

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
  /** The mean use of the devices, in per cent, and the memory of all of them. */
  devices: readonly Step[];
  deviceMemory: readonly Step[];
}

/** What is measured of some devices; null without a figure. */
export interface DeviceUse {
  use: number | null;
  memory: number | null;
  total: number;
}

export function deviceUseOf(figures: readonly DeviceFiguresView[]): DeviceUse {
  const uses = figures.flatMap((one) => one.use_percent ?? []);
  const held = figures.flatMap((one) => one.memory_used_bytes ?? []);
  return {
    use: uses.length ? sumOf(uses) / uses.length : null,
    memory: held.length ? sumOf(held) : null,
    total: sumOf(figures.map((one) => one.memory_bytes ?? 0)),
  };
}

export function devicesOf(view: SessionMetricsView): DeviceFiguresView[] {
  return view.items.flatMap((one) => Object.values(one.devices ?? {}));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, one) => sum + one, 0);
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
  const device = deviceUseOf(devicesOf(view));
  const held = view.items.flatMap((one) => (one.memory_bytes === null ? [] : [one.memory_bytes]));
  return {
    view, at, cores,
    // What was used until now began with the measurement before.
    cpu: added(before?.cpu ?? [], before?.at ?? at, [...cores.values()]),
    memory: added(before?.memory ?? [], at, held),
    devices: grown(before?.devices ?? [], at, device.use),
    deviceMemory: grown(before?.deviceMemory ?? [], at, device.memory),
  };
}

function added(steps: readonly Step[], at: number, values: readonly number[]): readonly Step[] {
  return grown(steps, at, values.length ? sumOf(values) : null);
}

/** A line with one more value; without one it stays as it is. */
export function grown(steps: readonly Step[], at: number, value: number | null): readonly Step[] {
  return value === null ? steps : [...steps, { at, devices: value }].slice(-POINTS_MAX);
}

/** What the measured kernels asked for of a slot, together. */
export function askedOf(view: SessionMetricsView, slot: string): number {
  return view.items.reduce((sum, one) => sum + (one.slots[slot] ?? 0), 0);
}
