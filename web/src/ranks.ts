// Output of several kernels as one list of lines, in the order in which it comes. Pure.
import { printable } from "./format.ts";

// Kernels whose output the server sends together.
export const TOGETHER_MAX = 256;
// What is kept for the screen; the download has everything.
const SHOWN_MAX = 400_000;
// A line that does not end is shown in parts.
const LINE_MAX = 65_536;

export interface RankLine {
  kernel: number;
  text: string;
}

export class RankLines {
  #lines: RankLine[] = [];
  #kept = 0;
  readonly #rests = new Map<number, { decoder: TextDecoder; text: string }>();

  /** Take what a kernel has written next. */
  feed(kernel: number, bytes: Uint8Array, end: boolean): void {
    const rest = this.#rests.get(kernel) ?? { decoder: new TextDecoder(), text: "" };
    this.#rests.set(kernel, rest);
    const lines = (rest.text + rest.decoder.decode(bytes, { stream: !end })).split("\n");
    rest.text = lines.pop() ?? "";
    for (const line of lines) this.#add(kernel, line);
    while (rest.text.length > LINE_MAX) {
      this.#add(kernel, rest.text.slice(0, LINE_MAX));
      rest.text = rest.text.slice(LINE_MAX);
    }
    if (!end) return;
    if (rest.text) this.#add(kernel, rest.text);
    this.#rests.delete(kernel);
  }

  /** The lines so far, and last those that have not ended. */
  all(): RankLine[] {
    const open = [...this.#rests].filter(([, rest]) => rest.text).sort(([one], [other]) => one - other);
    return [...this.#lines, ...open.map(([kernel, rest]) => ({ kernel, text: printable(rest.text) }))];
  }

  #add(kernel: number, line: string): void {
    const text = printable(line.endsWith("\r") ? line.slice(0, -1) : line);
    this.#lines.push({ kernel, text });
    this.#kept += text.length + 1;
    if (this.#kept <= SHOWN_MAX) return;
    // A quarter at a time: moving all lines for each new one would take long.
    let first = 0;
    for (; first < this.#lines.length - 1 && this.#kept > (SHOWN_MAX * 3) / 4; first += 1) this.#kept -= (this.#lines[first]?.text.length ?? 0) + 1;
    this.#lines = this.#lines.slice(first);
  }
}

/** Lines with a text, in upper or lower case. */
export function linesWith(lines: readonly RankLine[], search: string): readonly RankLine[] {
  const wanted = search.toLowerCase();
  return wanted ? lines.filter((line) => line.text.toLowerCase().includes(wanted)) : lines;
}

/** Lines as text, each after its kernel. */
export function rankText(lines: readonly RankLine[]): string {
  const width = lines.reduce((most, line) => Math.max(most, String(line.kernel).length), 0) + 2;
  return lines.map((line) => `${`[${line.kernel}]`.padEnd(width)} ${line.text}`).join("\n");
}

/** The indexes that a text such as 0-3,7 names, and what is wrong with it; an empty one names the first of all kernels. */
export function ranksOf(text: string, size: number): { kernels: number[]; problem: string } {
  const everyone = Array.from({ length: Math.min(size, TOGETHER_MAX) }, (_, index) => index);
  if (!text.trim()) return { kernels: everyone, problem: "" };
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^\s*(\d{1,7})(?:\s*-\s*(\d{1,7}))?\s*$/.exec(part);
    const first = Number(match?.[1]);
    const last = Number(match?.[2] ?? match?.[1]);
    if (!match || last < first) return { kernels: everyone, problem: `"${text.trim()}" names no kernels: write 2, or 0-3,7` };
    if (last >= size) return { kernels: everyone, problem: `there is no kernel ${last}: they are 0 to ${size - 1}` };
    for (let index = first; index <= last; index += 1) found.add(index);
  }
  if (found.size > TOGETHER_MAX) return { kernels: everyone, problem: `${found.size} kernels are too many together: name at most ${TOGETHER_MAX}` };
  return { kernels: [...found].sort((one, other) => one - other), problem: "" };
}

/** Indexes in short: 0-3,7. */
export function ranksText(kernels: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const index of kernels) {
    const last = runs.at(-1);
    if (last && index === last[1] + 1) last[1] = index;
    else runs.push([index, index]);
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}

/** Where to go on: the offsets of a place, without those of kernels that were started again. */
export function placeWithout(place: string, kernels: ReadonlySet<number>): string {
  return place.split(",").filter((one) => one && !kernels.has(Number(one.split(":")[0]))).join(",");
}
