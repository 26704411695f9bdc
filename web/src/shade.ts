// What the colour of a device on the map says: state, use, memory, owner or queue. Pure.
import type { FleetView } from "./wire.ts";

export const MODES = ["state", "use", "memory", "owner", "queue"] as const;
export type Mode = (typeof MODES)[number];

/** Colours of owners and queues; more of them share the last one. */
export const GROUPS = 7;
export const STEPS = 5;

/** The kind of a cell: its colour, and a letter so that the colour is not alone. */
export interface Shade {
  colour: string;
  letter: string;
}

export interface LegendEntry extends Shade {
  label: string;
  devices: number;
}

export interface Shading {
  mode: Mode;
  shadeOf: (device: number) => Shade;
  legend: LegendEntry[];
}

const FREE: Shade = { colour: "free", letter: "" };
const USED: Shade = { colour: "used", letter: "" };
const UNKNOWN: Shade = { colour: "unknown", letter: "?" };
const HIDDEN: Shade = { colour: "hidden", letter: "*" };
const STEP_LABELS = ["0 to 19 %", "20 to 39 %", "40 to 59 %", "60 to 79 %", "80 to 100 %"];

export function modeOf(text: string): Mode {
  return MODES.find((one) => one === text) ?? "state";
}

export function shading(fleet: FleetView, mode: Mode): Shading {
  if (mode === "use" || mode === "memory") return byFigure(fleet, mode);
  if (mode === "owner" || mode === "queue") return byHolder(fleet, mode);
  const isUsed = (device: number) => (fleet.device_used[device] ?? 0) > 0;
  return finished(fleet, mode, (device) => (isUsed(device) ? USED : FREE), [{ ...USED, label: "in use" }, { ...FREE, label: "free" }]);
}

/** The place of a percentage among the steps. */
export function stepOf(percent: number): number {
  return Math.max(0, Math.min(STEPS - 1, Math.floor((percent * STEPS) / 100)));
}

function byFigure(fleet: FleetView, mode: "use" | "memory"): Shading {
  const figures = (mode === "use" ? fleet.device_use : fleet.device_memory) ?? [];
  const steps = STEP_LABELS.map((label, at) => ({ colour: `step-${at}`, letter: String(at + 1), label }));
  const shadeOf = (device: number): Shade => {
    const percent = figures[device] ?? -1;
    return percent < 0 ? UNKNOWN : (steps[stepOf(percent)] ?? UNKNOWN);
  };
  return finished(fleet, mode, shadeOf, [...steps, { ...UNKNOWN, label: "not measured" }]);
}

function byHolder(fleet: FleetView, mode: "owner" | "queue"): Shading {
  const nameOf = (holder: number) => (mode === "owner" ? fleet.holders[holder]?.user : fleet.holders[holder]?.queue) ?? "";
  const counts = new Map<string, number>();
  fleet.device_holder.forEach((holder) => {
    if (holder >= 0) counts.set(nameOf(holder), (counts.get(nameOf(holder)) ?? 0) + 1);
  });
  const ranked = [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).map(([name]) => name);
  const isMany = ranked.length > GROUPS;
  const own = ranked.slice(0, isMany ? GROUPS - 1 : GROUPS);
  const entries = own.map((name, at) => ({ colour: `group-${at}`, letter: String.fromCharCode(97 + at), label: name || "none" }));
  const rest = { colour: `group-${GROUPS - 1}`, letter: "+", label: `${ranked.length - own.length} others` };
  const shades = new Map<string, Shade>(own.map((name, at) => [name, entries[at] ?? rest]));
  const shadeOf = (device: number): Shade => {
    if (!(fleet.device_used[device] ?? 0)) return FREE;
    const holder = fleet.device_holder[device] ?? -1;
    return holder < 0 ? HIDDEN : (shades.get(nameOf(holder)) ?? rest);
  };
  return finished(fleet, mode, shadeOf, [...entries, ...(isMany ? [rest] : []), { ...HIDDEN, label: "sessions of others" }, { ...FREE, label: "free" }]);
}

/** The legend has only what is on the map, with how often. */
function finished(fleet: FleetView, mode: Mode, shadeOf: (device: number) => Shade, entries: (Shade & { label: string })[]): Shading {
  const counts = new Map<string, number>();
  fleet.device.forEach((_, device) => {
    const { colour } = shadeOf(device);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  });
  const legend = entries.map((one) => ({ ...one, devices: counts.get(one.colour) ?? 0 }));
  return { mode, shadeOf, legend: mode === "state" ? legend : legend.filter((one) => one.devices > 0) };
}
