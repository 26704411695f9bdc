// The shares of queues as a tree of bars. Pure.
import type { QueueBody, QueueShareView } from "./wire.ts";

export interface QueueBar {
  queue: string;
  depth: number;
  weight: number;
  open: boolean;
  reclaimable: boolean;
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
      found.push({ queue: queue.name, depth, weight: queue.weight ?? 1, open: queue.open ?? true, reclaimable: queue.reclaimable ?? true, share });
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

export interface Loan {
  from: string;
  to: string;
  /** The most that it can be: the borrowed part, or what the other queue has not of its share. */
  most: number;
  /** What the lender waits for. */
  waiting: number;
  reclaimable: boolean;
}

/** Who uses the share of whom: each queue with more than its share, and each with less; those that wait for it first. */
export function loansOf(bars: readonly QueueBar[]): Loan[] {
  // Queues above others only add up what those use.
  const leaves = bars.filter((bar, at) => (bars[at + 1]?.depth ?? 0) <= bar.depth);
  const found: Loan[] = [];
  for (const { queue: to, share: over, reclaimable } of leaves) {
    if (!over?.borrowed) continue;
    for (const { queue: from, share: under } of leaves) {
      const left = under?.deserved ? under.deserved - under.allocated : 0;
      if (under && left > 0) found.push({ from, to, most: Math.min(over.borrowed, left), waiting: under.waiting, reclaimable });
    }
  }
  return found.sort((one, other) => Number(other.waiting > 0) - Number(one.waiting > 0) || other.most - one.most);
}
