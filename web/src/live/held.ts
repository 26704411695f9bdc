// Which sessions a browser holds: the newest ones, as far as its tabs have scrolled. Pure.
import type { EventView } from "../wire.ts";
import { type SessionRow } from "../rows.ts";

/** Rows of the first page, and of each further one that a tab asks for. */
export const FIRST_ROWS = 200;
export const MORE_ROWS = 500;
const HELD_MAX = 10_000;
// Above this many changes the rows that are held cost less to read again.
export const NAMED_MAX = 200;
// New sessions that are held beyond the pages, before the oldest are let go.
const SPARE_ROWS = 300;

/** What has to be read: nothing, some sessions, or everything that is held. */
export type Due = { whole: true } | { whole: false; ids: string[] };

export class Held {
  readonly rows = new Map<string, SessionRow>();
  /** Where the next page begins; null if there are no older sessions. */
  cursor: string | null = null;
  ready = false;
  #wanted = FIRST_ROWS;
  #oldest = "";
  #stale = false;
  readonly #changed = new Set<string>();

  /** How many rows are read when everything is read again. */
  get wanted(): number {
    return this.#wanted;
  }

  /** Whether there are older sessions than those that are held. */
  get cut(): boolean {
    return this.cursor !== null;
  }

  get canGrow(): boolean {
    return this.ready && this.cut && this.rows.size < HELD_MAX;
  }

  /** Take the newest sessions instead of all that were held. */
  replace(rows: readonly SessionRow[], cursor: string | null): void {
    this.rows.clear();
    this.cursor = cursor;
    this.#add(rows);
    this.#oldest = "";
    for (const id of this.rows.keys()) if (!this.#oldest || id < this.#oldest) this.#oldest = id;
    this.ready = true;
  }

  /** Take the page of older sessions after those that are held. */
  extend(rows: readonly SessionRow[], cursor: string | null): void {
    this.cursor = cursor;
    this.#add(rows);
    for (const { id } of rows) if (id < this.#oldest) this.#oldest = id;
    this.#wanted = Math.max(this.#wanted, Math.min(HELD_MAX, this.rows.size));
  }

  /** Take sessions that have changed; true for those that belong to the list, and not only to a tab that watches them. */
  update(rows: readonly SessionRow[]): boolean[] {
    const listed = rows.map(({ id }) => this.#isListed(id));
    this.#add(rows.filter((_, at) => listed[at]));
    if (this.rows.size > this.#wanted + SPARE_ROWS) this.#stale = true;
    return listed;
  }

  /** Remember what an event changes. Ids begin with their time, so those of older sessions are known by them. */
  note(event: EventView, isWatched: (id: string) => boolean): void {
    const ids = event.object === "session" && !event.sessions?.length ? [event.id] : (event.sessions ?? []);
    for (const id of ids) if (this.#isListed(id) || isWatched(id)) this.#changed.add(id);
    // Only the first are named.
    if ((event.count ?? 0) > ids.length) this.#stale = true;
  }

  /** Some changes were missed. */
  forget(): void {
    this.#stale = true;
  }

  /** What has changed since the last call. */
  take(): Due {
    const ids = [...this.#changed];
    const whole = this.#stale || ids.length > NAMED_MAX;
    this.#changed.clear();
    this.#stale = false;
    return whole ? { whole } : { whole, ids };
  }

  /** Sessions that wait: their texts change without an event. */
  waiting(): string[] {
    return [...this.rows.values()].filter((row) => row.status === "pending").map((row) => row.id).slice(-NAMED_MAX);
  }

  clear(): void {
    this.rows.clear();
    this.#changed.clear();
    this.cursor = null;
    this.ready = this.#stale = false;
    this.#wanted = FIRST_ROWS;
    this.#oldest = "";
  }

  #isListed(id: string): boolean {
    return !this.cut || this.rows.has(id) || id >= this.#oldest;
  }

  #add(rows: readonly SessionRow[]): void {
    for (const row of rows) this.rows.set(row.id, row);
  }
}
