// Limits of users and groups beside what they hold. Pure.
import type { PolicyBody, UsageHistoryView } from "./wire.ts";

export interface LimitedOwner {
  kind: "user" | "group";
  name: string;
  policy: string;
}

export interface LimitRow extends LimitedOwner {
  slot: string;
  used: number;
  limit: number;
}

const PREFIXES = "KMGTP";

/** An amount of a limit in the unit that use is counted in; null if it is none. */
export function baseAmount(slot: string, given: number | string): number | null {
  // As the API writes them: 4, 0.25, 64Gi, 512M.
  const found = /^(\d+(?:\.\d+)?)(?:([KMGTP])(i)?)?$/.exec(String(given));
  if (!found) return null;
  const inThousandths = slot === "cpu" || slot.endsWith(".shares");
  const unit = found[2] ? (found[3] ? 1024 : 1000) ** (PREFIXES.indexOf(found[2]) + 1) : 1;
  return Math.round(Number(found[1]) * unit * (inThousandths ? 1000 : 1));
}

/** A row for each limited slot of each owner, those nearest to their limit first. */
export function limitRows(owners: readonly LimitedOwner[], policies: readonly PolicyBody[], held: Record<LimitedOwner["kind"], UsageHistoryView>): LimitRow[] {
  const limits = new Map(policies.map((one) => [one.name, one.slots_max ?? {}]));
  const rows = owners.flatMap((owner) =>
    Object.entries(limits.get(owner.policy) ?? {}).flatMap(([slot, text]) => {
      const limit = baseAmount(slot, text);
      const series = held[owner.kind].items.find((one) => one.name === owner.name && one.slot === slot);
      return limit === null ? [] : [{ ...owner, slot, limit, used: Math.round(series?.used.at(-1) ?? 0) }];
    }),
  );
  const share = (row: LimitRow) => row.used / Math.max(1, row.limit);
  return rows.sort((one, other) => share(other) - share(one) || (one.name < other.name ? -1 : 1));
}
