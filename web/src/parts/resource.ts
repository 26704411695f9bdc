// Reads something from the API, again when it has changed, and keeps the last answer meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ProblemView } from "../wire.ts";
import { Problem } from "../api.ts";
import { again } from "../live/store.ts";

export interface Resource<T> {
  value: T | null;
  problem: ProblemView | null;
  retry: () => void;
}

interface Answer<T> {
  key: string;
  value: T | null;
  problem: ProblemView | null;
}

// Reads begin at least this far apart, however many changes there are; those that take long, some times as far.
export const GAP_MS = 1000;
const GAP_TIMES = 5;
const GAP_MAX_MS = 30_000;

/** `key` names what is read; another one forgets the answer. `tick` counts changes of it; those of a form have a gap of their own. */
export function useResource<T>(key: string, read: (signal: AbortSignal) => Promise<T>, tick: unknown = 0, gapMs?: number): Resource<T> {
  const [state, setState] = useState<Answer<T>>({ key, value: null, problem: null });
  const reading = useRef(read);
  reading.current = read;
  const start = useRef<(now?: boolean) => void>(() => undefined);
  const startOver = useRef<() => void>(() => undefined);
  useEffect(() => {
    let stopped = false;
    let reads = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let changed = false;
    let began = 0;
    let took = 0;
    const run = async (): Promise<void> => {
      timer = undefined;
      busy = true;
      began = Date.now();
      const { signal } = (reads = new AbortController());
      try {
        const value = await reading.current(signal);
        if (!signal.aborted) setState({ key, value, problem: null });
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setState((before) => ({ key, value: before.key === key ? before.value : null, problem: error.view }));
      } finally {
        busy = false;
        took = Date.now() - began;
        if (signal.aborted && !stopped) begin(true);
        else if (changed && !stopped) begin();
        changed = false;
      }
    };
    const apart = (): number => gapMs ?? Math.max(GAP_MS, Math.min(GAP_MAX_MS, GAP_TIMES * took));
    // A read that has begun is not given up for a change: on a busy server none would ever end.
    const begin = (now = false): void => {
      if (now && !busy) {
        clearTimeout(timer);
        timer = undefined;
      }
      if (busy) changed = true;
      else if (now) void run();
      else timer ??= setTimeout(() => void run(), began ? Math.max(0, apart() - (Date.now() - began)) : 0);
    };
    start.current = begin;
    // It may wait for an answer that never comes: its line was down.
    startOver.current = () => (busy ? reads.abort() : begin(true));
    begin();
    return () => {
      stopped = true;
      reads.abort();
      clearTimeout(timer);
    };
  }, [key]);
  useEffect(() => start.current(), [tick]);
  const asked = useRef(again.value);
  useEffect(() => {
    if (asked.current !== again.value) startOver.current();
    asked.current = again.value;
  }, [again.value]);
  const current = state.key === key;
  return {
    value: current ? state.value : null,
    problem: current ? state.problem : null,
    retry: () => start.current(true),
  };
}
