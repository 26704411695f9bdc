// Sessions of the server that the browser does not hold, page by page.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, Problem } from "../api.ts";
import { cut, newest, watch } from "../live/store.ts";
import { merged, rowOf, searchesFor, type SessionRow } from "../rows.ts";
import type { SessionRowPage } from "../wire.ts";

// A filter is sent to the server after this long without another key.
const TYPED_MS = 300;
const PAGE = 200;
const FOUND_MAX = 10_000;
const NONE: readonly SessionRow[] = [];

export interface Search {
  rows: readonly SessionRow[];
  /** The last rows of lists that go on, as they were read. */
  ends: readonly SessionRow[];
  /** Read the next page, if there is one. */
  more: () => void;
}

interface Found {
  rows: SessionRow[];
  ends: SessionRow[];
  // What is still to be read, by search.
  left: string[];
}

async function readPage(searches: readonly string[], signal: AbortSignal): Promise<Found> {
  const pages = await Promise.all(searches.map((one) => call<SessionRowPage>(`sessions/rows?${one}&limit=${PAGE}`, { signal })));
  const left = pages.flatMap((page, at) => (page.next ? [`${(searches[at] ?? "").replace(/&cursor=.*$/, "")}&cursor=${encodeURIComponent(page.next)}`] : []));
  const ends = pages.flatMap((page) => (page.next ? page.items.slice(-1).map(rowOf) : []));
  return { rows: pages.flatMap((page) => page.items.map(rowOf)), ends, left };
}

/** Sessions that match a filter, in an order, from the server if the browser holds only a part of the list; `live` ones are kept up to date. */
export function useSearch(text: string, status: string, live: boolean, sort = ""): Search {
  const [typed, setTyped] = useState(text);
  const [found, setFound] = useState<Found>({ rows: [], ends: [], left: [] });
  const more = useRef<() => void>(() => undefined);
  useEffect(() => {
    const timer = setTimeout(() => setTyped(text), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const asked = cut.value && typed === text ? searchesFor(typed, status, sort) : [];
  const key = asked.join(" ");
  useEffect(() => {
    const stopped = new AbortController();
    let state: Found = { rows: [], ends: [], left: key ? asked : [] };
    let busy = false;
    const read = async (): Promise<void> => {
      if (busy || !state.left.length || state.rows.length >= FOUND_MAX) return;
      busy = true;
      try {
        const page = await readPage(state.left, stopped.signal);
        if (stopped.signal.aborted) return;
        state = { rows: merged(page.rows, state.rows), ends: page.ends, left: page.left };
        setFound(state);
        if (live) watch(state.rows.map((row) => row.id));
      } catch (error) {
        // What is held is still listed, and the next key asks again.
        if (!stopped.signal.aborted && !(error instanceof Problem)) throw error;
      } finally {
        busy = false;
      }
    };
    setFound(state);
    more.current = () => void read();
    void read();
    return () => {
      stopped.abort();
      if (live) watch([]);
    };
  }, [key]);
  return { rows: key && found.rows.length ? newest(found.rows) : NONE, ends: key ? found.ends : NONE, more: () => more.current() };
}
