// Sessions as the list shows them, and how lists are filtered. Pure: the worker and its tests use it too.
import type { SessionRowView as ListedSession } from "./wire.ts";
import { devices } from "./format.ts";

export interface SessionRow {
  id: string;
  name: string;
  status: string;
  result: string | null;
  user: string;
  queue: string;
  size: number;
  devices: number;
  agents: number;
  submitted_at: string;
  since: string;
  scheduled_at: string | null;
  ended_at: string | null;
  reason: string | null;
  detail: string | null;
}

export function rowOf(view: ListedSession): SessionRow {
  return {
    id: view.id,
    name: view.name,
    status: view.status,
    result: view.result,
    user: view.user,
    queue: view.queue,
    size: view.size,
    devices: devices(view.slots),
    agents: view.agents,
    submitted_at: view.submitted_at,
    since: view.since,
    scheduled_at: view.scheduled_at,
    ended_at: view.ended_at,
    reason: view.reason,
    detail: view.reason_detail,
  };
}

/** Newest first, as the API lists them. */
export function byAge(one: SessionRow, other: SessionRow): number {
  if (one.submitted_at !== other.submitted_at) return one.submitted_at < other.submitted_at ? 1 : -1;
  return one.id < other.id ? 1 : -1;
}

/** Columns by which the list can be sorted; the first time in the order that is asked for most. `key` is the server's name. */
export const SORTS = {
  state: { of: (row: SessionRow) => row.status, falls: false, key: "status" },
  name: { of: (row: SessionRow) => row.name || row.id, falls: false, key: "name" },
  user: { of: (row: SessionRow) => row.user, falls: false, key: "user" },
  queue: { of: (row: SessionRow) => row.queue, falls: false, key: "queue" },
  kernels: { of: (row: SessionRow) => row.size, falls: true, key: "kernels" },
  gpu: { of: (row: SessionRow) => row.devices, falls: true, key: "gpus" },
  age: { of: (row: SessionRow) => row.submitted_at, falls: true, key: "" },
  reason: { of: (row: SessionRow) => row.reason ?? "~", falls: false, key: "reason" },
} as const;
export type SortKey = keyof typeof SORTS;

export interface Sort {
  key: SortKey;
  falls: boolean;
}

const NEWEST: Sort = { key: "age", falls: true };

/** The order that an address names: `name`, or `-name` if it falls. The newest first without one. */
export function sortOf(text: string): Sort {
  const key = text.replace(/^-/, "");
  return Object.hasOwn(SORTS, key) ? { key: key as SortKey, falls: text.startsWith("-") } : NEWEST;
}

/** The order after the head of a column was chosen, for the address. */
export function sortAfter(before: Sort, key: SortKey): string {
  const falls = before.key === key ? !before.falls : SORTS[key].falls;
  return key === NEWEST.key && falls === NEWEST.falls ? "" : `${falls ? "-" : ""}${key}`;
}

/** The order as the server names it; empty for its own, the newest first. */
export function sortParameter(sort: Sort): string {
  if (sort.key === "age") return sort.falls ? "" : "oldest";
  return `${sort.falls ? "-" : ""}${SORTS[sort.key].key}`;
}

/** Compares rows; as people read numbers in texts, or byte by byte as the server does. Equal ones are the newest first. */
function comparing(sort: Sort, natural: boolean): (one: SessionRow, other: SessionRow) => number {
  const { of } = SORTS[sort.key];
  const compare = (one: SessionRow, other: SessionRow) => {
    const [left, right] = [of(one), of(other)];
    if (typeof left === "number" || typeof right === "number") return Number(left) - Number(right);
    if (left === right) return 0;
    return natural ? left.localeCompare(right, "en", { numeric: true }) : left < right ? -1 : 1;
  };
  const oldest = sort.key === "age" && !sort.falls;
  return (one, other) => (sort.falls ? compare(other, one) : compare(one, other)) || (oldest ? byAge(other, one) : byAge(one, other));
}

/** Rows in an order; equal ones stay the newest first. */
export function sorted(rows: readonly SessionRow[], sort: Sort): readonly SessionRow[] {
  if (sort.key === NEWEST.key && sort.falls === NEWEST.falls) return rows;
  return [...rows].sort(comparing(sort, true));
}

/** Rows in the server's order as far as it is known: `ends` are the last rows of lists that go on. */
export function sortedUntil(rows: readonly SessionRow[], sort: Sort, ends: readonly SessionRow[]): readonly SessionRow[] {
  const compare = comparing(sort, false);
  const end = [...ends].sort(compare)[0];
  return rows.filter((row) => !end || compare(row, end) <= 0).sort(compare);
}

export function matches(row: SessionRow, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return true;
  const all = `${row.name} ${row.id} ${row.user} ${row.queue} ${row.reason ?? ""}`.toLowerCase();
  return wanted.split(/\s+/).every((word) => all.includes(word));
}

// Characters that the server takes in a search.
const SEARCH_MAX = 64;

/** The requests that find in the whole list what a filter finds in a part of it: by words, and by a reason if it looks like one. */
export function searchesFor(text: string, status: string, sort = ""): string[] {
  const words = text.trim().slice(0, SEARCH_MAX);
  const chosen = [...(status ? [`status=${encodeURIComponent(status)}`] : []), ...(sort ? [`sort=${sort}`] : [])].join("&");
  if (!words) return chosen ? [chosen] : [];
  const also = chosen ? `&${chosen}` : "";
  return [`q=${encodeURIComponent(words)}${also}`, ...(/^[A-Z][A-Z_]+$/.test(words) ? [`reason=${words}${also}`] : [])];
}

/** Rows of two lists, each once; those of the first are newer. */
export function merged(first: readonly SessionRow[], second: readonly SessionRow[]): SessionRow[] {
  const found = new Map(second.map((row) => [row.id, row]));
  for (const row of first) found.set(row.id, row);
  return [...found.values()].sort(byAge);
}

export function countBy<T>(items: Iterable<T>, key: (item: T) => string): Map<string, number> {
  const found = new Map<string, number>();
  for (const item of items) found.set(key(item), (found.get(key(item)) ?? 0) + 1);
  return found;
}
