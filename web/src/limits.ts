// Limits of owners beside what they hold. Pure.
import type { OwnerLimitsView } from "./wire.ts";

export interface LimitRow {
  kind: string;
  name: string;
  policy: string;
  /** A slot, or null for the number of sessions. */
  slot: string | null;
  used: number;
  limit: number;
}

/** A row for each limit of each owner, those nearest to their limit first. */
export function limitRows(owners: readonly OwnerLimitsView[]): LimitRow[] {
  const rows = owners.flatMap(({ kind, name, policy, limits, used, sessions, sessions_max }): LimitRow[] => [
    ...Object.entries(limits).map(([slot, limit]) => ({ kind, name, policy, slot, used: used[slot] ?? 0, limit })),
    ...(sessions_max === null || sessions_max === undefined ? [] : [{ kind, name, policy, slot: null, used: sessions, limit: sessions_max }]),
  ]);
  const share = (row: LimitRow) => row.used / Math.max(1, row.limit);
  return rows.sort((one, other) => share(other) - share(one) || (one.name < other.name ? -1 : 1));
}
