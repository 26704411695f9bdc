// Lists that only grow, read page by page and then from near their end. Pure.

export interface Page<T> {
  items: T[];
  next: string | null;
}

// Entries of one instant may still come in before others that were read.
const AGAIN = 2;

export class GrowingList<T> {
  // Each page with the cursor that it was read by.
  #pages: { cursor: string; items: T[] }[] = [];

  /** Read the last pages again and those that follow, up to `most` in all; the others do not change. */
  async read(page: (cursor: string) => Promise<Page<T>>, most: number): Promise<T[]> {
    const kept = this.#pages.slice(0, Math.max(0, this.#pages.length - AGAIN));
    let cursor: string | null = this.#pages[kept.length]?.cursor ?? "";
    while (cursor !== null && kept.length < most) {
      const found: Page<T> = await page(cursor);
      kept.push({ cursor, items: found.items });
      cursor = found.next;
    }
    this.#pages = kept;
    return kept.flatMap((one) => one.items);
  }
}
