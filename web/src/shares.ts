// The shares of queues as a tree of bars. Pure.
import type { QueueBody, QueueShareView } from "./wire.ts";

export interface QueueBar {
  queue: string;
  depth: number;
  weight: number;
  open: boolean;
  share: QueueShareView | null;
}

/** Queues below their parents, each with its share of a slot. */
export function barsOf(queues: readonly QueueBody[], shares: readonly QueueShareView[], slot: string): QueueBar[] {
  const below = new Map<string, QueueBody[]>();
  const names = new Set(queues.map((queue) => queue.name));
  for (const queue of queues) {
    const parent = queue.parent && names.has(queue.parent) ? queue.parent : "";
    below.set(parent, [...(below.get(parent) ?? []), queue]);
  }
  const found: QueueBar[] = [];
  const add = (parent: string, depth: number): void => {
    for (const queue of (below.get(parent) ?? []).sort((one, other) => one.name.localeCompare(other.name))) {
      const share = shares.find((one) => one.queue === queue.name && one.slot === slot) ?? null;
      found.push({ queue: queue.name, depth, weight: queue.weight ?? 1, open: queue.open ?? true, share });
      add(queue.name, depth + 1);
    }
  };
  add("", 0);
  return found;
}

/** The amount that the full width of the bars stands for. */
export function scaleOf(bars: readonly QueueBar[]): number {
  return bars.reduce((most, { share }) => (share ? Math.max(most, share.allocated + share.waiting, share.deserved ?? 0, share.guarantee) : most), 1);
}

/** Queues that wait below their share, and those that use more than theirs. */
export function borrowing(bars: readonly QueueBar[]): { starved: string[]; over: string[] } {
  const leaves = bars.filter((bar) => bar.share !== null);
  return {
    starved: leaves.filter(({ share }) => share && share.waiting > 0 && share.deserved !== null && share.allocated < share.deserved).map((bar) => bar.queue),
    over: leaves.filter(({ share }) => share && share.borrowed > 0).map((bar) => bar.queue),
  };
}
