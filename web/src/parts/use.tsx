// Lines of the cores and the memory that a session uses, measured while its page is seen.
import { useEffect, useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { amount, printable, shellWords } from "../format.ts";
import { askedOf, nextUse, type Use } from "../use.ts";
import type { KernelUseView, ProblemView, SessionMetricsView } from "../wire.ts";
import { CopyCommand, ProblemBox } from "./basics.tsx";
import { StepChart } from "./chart.tsx";

const EVERY_MS = 2000;
const SLOTS = [["cpu", "CPU cores"], ["mem", "Memory"]] as const;

/** Begins with the first measurement; one of another session needs another key. */
export function SessionUse({ id, name, running }: { id: string; name: string; running: boolean }) {
  const [use, setUse] = useState<Use | null>(null);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  useEffect(() => {
    if (!running) return undefined;
    const stopped = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const measure = async (): Promise<void> => {
      try {
        if (document.visibilityState === "visible") {
          const view = await call<SessionMetricsView>(`sessions/${encodeURIComponent(id)}/metrics`, { signal: stopped.signal });
          if (stopped.signal.aborted) return;
          setUse((before) => nextUse(before, view, Date.now()));
          setProblem(null);
        }
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setProblem(error.view);
      }
      timer = setTimeout(() => void measure(), EVERY_MS);
    };
    void measure();
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [id, running]);
  if (!use && !problem) return null;
  return (
    <section class="use" aria-label="use">
      <h2>Use</h2>
      {problem ? <ProblemBox problem={problem} /> : null}
      {use ? <Lines use={use} running={running} /> : null}
      {use ? <Figures use={use} /> : null}
      <CopyCommand command={shellWords(["sokovan", "session", "stats", name])} />
    </section>
  );
}

function Lines({ use, running }: { use: Use; running: boolean }) {
  const { view, at } = use;
  const left = view.size > view.items.length ? ` of the first ${view.items.length} of ${view.size} kernels` : "";
  return (
    <>
      {SLOTS.map(([slot, label]) => {
        const steps = slot === "cpu" ? use.cpu : use.memory;
        return steps.length ? (
          <StepChart
            key={slot} label={`${label}${left}`} steps={steps} from={steps[0]?.at ?? at} to={at} total={askedOf(view, slot)}
            show={(value) => amount(slot, Math.round(value))} end={running ? "now" : "at the end"}
          />
        ) : null;
      })}
    </>
  );
}

/** The same in figures, for each kernel. */
function Figures({ use }: { use: Use }) {
  return (
    <details>
      <summary>Figures of each kernel</summary>
      <div class="table-box" role="region" tabIndex={0} aria-label="use of kernels">
        <table>
          <thead>
            <tr><th>Kernel</th><th>Agent</th><th class="right">CPU cores</th><th class="right">Memory</th><th class="right">Processes</th><th>Problem</th></tr>
          </thead>
          <tbody>
            {use.view.items.map((one) => (
              <tr key={one.index}>
                <th scope="row">{one.index}</th>
                <td>{one.agent ?? "none"}</td>
                <td class="right">{figure("cpu", use.cores.get(one.index) ?? null, one)}</td>
                <td class="right">{figure("mem", one.memory_bytes, one)}</td>
                <td class="right">{one.processes ?? ""}</td>
                <td>{printable(one.error ?? "")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function figure(slot: string, value: number | null, kernel: KernelUseView): string {
  if (value === null) return "";
  const asked = kernel.slots[slot];
  return asked ? `${amount(slot, value)} of ${amount(slot, asked)}` : amount(slot, value);
}
