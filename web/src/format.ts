// Pure functions that turn values of the API into short texts.
import type { ProblemView } from "./wire.ts";

export type Slots = Record<string, number>;

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** An amount in the slot's smallest unit, as people write it. */
export function amount(slot: string, value: number): string {
  if (slot === "cpu" || slot.endsWith(".shares")) return trimmed(value / 1000);
  if (slot === "mem" || slot.endsWith(".mem")) return bytes(value);
  return String(value);
}

export function bytes(value: number): string {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < BYTES.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${trimmed(left)} ${BYTES[unit] ?? "B"}`;
}

export function trimmed(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

/** The slot of accelerators among these; empty if there is none. */
export function deviceSlot(slots: Slots): string {
  const names = Object.keys(slots).sort();
  return names.find((name) => name.endsWith(".device")) ?? names.find((name) => name.endsWith(".shares")) ?? "";
}

export function devices(slots: Slots, size = 1): number {
  const slot = deviceSlot(slots);
  const each = slots[slot] ?? 0;
  return (slot.endsWith(".shares") ? each / 1000 : each) * size;
}

export function slotsText(slots: Slots): string {
  const names = Object.keys(slots).sort();
  return names.map((name) => `${name} ${amount(name, slots[name] ?? 0)}`).join(", ") || "none";
}

/** A length of time in its two largest units. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return two(whole, 60, "m", 1, "s");
  if (whole < 86400) return two(whole, 3600, "h", 60, "m");
  return two(whole, 86400, "d", 3600, "h");
}

function two(value: number, large: number, largeName: string, small: number, smallName: string): string {
  const first = Math.floor(value / large);
  const rest = Math.floor((value % large) / small);
  return rest ? `${first}${largeName} ${rest}${smallName}` : `${first}${largeName}`;
}

export function seconds(from: string, to: string | null, nowMs: number): number {
  return ((to === null ? nowMs : Date.parse(to)) - Date.parse(from)) / 1000;
}

/** Words of a command line, quoted for a shell where needed. */
export function shellWords(words: readonly string[]): string {
  return words.map((word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** Output of programs as plain text: control characters other than tab and newline become visible marks. */
export function printable(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    // Sequences that terminals interpret, such as colours.
    .replace(/\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,1000}(?:\u0007|\u001b\\)|[@-Z\\-_])/g, "")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function decoded(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/** What went wrong in one line, and what is wrong in each place, without saying it twice. */
export function problemLines({ detail, problems }: Pick<ProblemView, "detail" | "problems">): [title: string, lines: ProblemView["problems"]] {
  const listed = problems.map((one) => `${one.where}: ${one.problem}`).join("; ");
  if (listed && detail.endsWith(`: ${listed}`)) return [detail.slice(0, -listed.length - 2), problems];
  return [detail, problems.filter((one) => !detail.includes(one.problem))];
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
