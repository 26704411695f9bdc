// Something that a button does: one at a time, and its refusal is kept for the page to show.
import { useState } from "preact/hooks";
import { Problem } from "../api.ts";
import type { ProblemView } from "../wire.ts";

export interface Action {
  busy: boolean;
  problem: ProblemView | null;
  run: (work: () => Promise<unknown>) => void;
}

export function useAction(done: () => void = () => undefined): Action {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const run = (work: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(null);
    work()
      .then(done, (error: unknown) => {
        if (!(error instanceof Problem)) throw error;
        setProblem(error.view);
      })
      .finally(() => setBusy(false));
  };
  return { busy, problem, run };
}
