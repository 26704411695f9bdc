// Reads something from the API, again when it has changed, and keeps the last answer meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ProblemView } from "../wire.ts";
import { Problem } from "../api.ts";

export interface Resource<T> {
  value: T | null;
  problem: ProblemView | null;
  retry: () => void;
}

// Reads follow each other at least this much later, however many changes there are.
const GAP_MS = 1000;

/** `key` names what is read; another one forgets the answer. `tick` counts changes of it. */
export function useResource<T>(key: string, read: (signal: AbortSignal) => Promise<T>, tick: unknown = 0): Resource<T> {
  const [state, setState] = useState<{ key: string; value: T | null; problem: ProblemView | null }>({
    key, value: null, problem: null,
  });
  const [tries, setTries] = useState(0);
  const last = useRef({ key: "", at: 0 });
  useEffect(() => {
    const stopped = new AbortController();
    const since = Date.now() - last.current.at;
    const wait = last.current.key === key ? Math.max(0, GAP_MS - since) : 0;
    const timer = setTimeout(() => {
      last.current = { key, at: Date.now() };
      read(stopped.signal).then(
        (value) => stopped.signal.aborted || setState({ key, value, problem: null }),
        (error: unknown) => {
          if (stopped.signal.aborted) return;
          const problem = error instanceof Problem ? error.view : null;
          if (!problem) throw error;
          setState((before) => ({ key, value: before.key === key ? before.value : null, problem }));
        },
      );
    }, wait);
    return () => {
      clearTimeout(timer);
      stopped.abort();
    };
  }, [key, tick, tries]);
  const current = state.key === key;
  return {
    value: current ? state.value : null,
    problem: current ? state.problem : null,
    retry: () => setTries(tries + 1),
  };
}
