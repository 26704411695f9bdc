// Reads something from the API, again when it has changed, and keeps the last answer meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ProblemView } from "../wire.ts";
import { Problem } from "../api.ts";

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
  const again = useRef<(now?: boolean) => void>(() => undefined);
  useEffect(() => {
    const stopped = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let changed = false;
    let began = 0;
    let took = 0;
    const run = async (): Promise<void> => {
      timer = undefined;
      busy = true;
      began = Date.now();
      try {
        const value = await reading.current(stopped.signal);
        if (!stopped.signal.aborted) setState({ key, value, problem: null });
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setState((before) => ({ key, value: before.key === key ? before.value : null, problem: error.view }));
      } finally {
        busy = false;
        took = Date.now() - began;
        if (changed && !stopped.signal.aborted) start();
        changed = false;
      }
    };
    const apart = (): number => gapMs ?? Math.max(GAP_MS, Math.min(GAP_MAX_MS, GAP_TIMES * took));
    // A read that has begun is not given up for a change: on a busy server none would ever end.
    const start = (now = false): void => {
      if (now && !busy) {
        clearTimeout(timer);
        timer = undefined;
      }
      if (busy) changed = true;
      else if (now) void run();
      else timer ??= setTimeout(() => void run(), began ? Math.max(0, apart() - (Date.now() - began)) : 0);
    };
    again.current = start;
    start();
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [key]);
  useEffect(() => again.current(), [tick]);
  const current = state.key === key;
  return {
    value: current ? state.value : null,
    problem: current ? state.problem : null,
    retry: () => again.current(true),
  };
}
