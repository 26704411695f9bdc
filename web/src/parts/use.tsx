// Lines of what a session or an agent uses, measured while its page is seen.
import { useEffect, useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { amount, printable, shellWords } from "../format.ts";
import type { Step } from "../timeline.ts";
import { askedOf, deviceUseOf, devicesOf, grown, nextUse, type Use } from "../use.ts";
import type { AgentView, KernelUseView, ProblemView, SessionMetricsView } from "../wire.ts";
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
      <DeviceLines use={use.devices} memory={use.deviceMemory} at={at} total={deviceUseOf(devicesOf(view)).total} end={running ? "now" : "at the end"} />
    </>
  );
}

interface DeviceLinesProps {
  use: readonly Step[];
  memory: readonly Step[];
  at: number;
  total: number;
  end?: string;
}

/** The mean use of devices, and the memory of all of them. */
function DeviceLines({ use, memory, at, total, end = "now" }: DeviceLinesProps) {
  return (
    <>
      {use.length ? <StepChart label="Use of devices" steps={use} from={use[0]?.at ?? at} to={at} total={100} show={(value) => `${Math.round(value)} %`} end={end} /> : null}
      {memory.length ? <StepChart label="Memory of devices" steps={memory} from={memory[0]?.at ?? at} to={at} total={total} show={(value) => amount("mem", Math.round(value))} end={end} /> : null}
    </>
  );
}

/** Lines of the devices of an agent, from when it was opened; one of another agent needs another key. */
export function AgentUse({ agent }: { agent: AgentView }) {
  const [lines, setLines] = useState<{ use: readonly Step[]; memory: readonly Step[]; at: number }>({ use: [], memory: [], at: Date.now() });
  const figures = deviceUseOf(Object.values(agent.devices ?? {}));
  useEffect(() => {
    const at = Date.now();
    setLines((before) => ({ use: grown(before.use, at, figures.use), memory: grown(before.memory, at, figures.memory), at }));
  }, [agent]);
  return <DeviceLines {...lines} total={figures.total} />;
}

/** The same in figures, for each kernel. */
function Figures({ use }: { use: Use }) {
  return (
    <details>
      <summary>Figures of each kernel</summary>
      <div class="table-box" role="region" tabIndex={0} aria-label="use of kernels">
        <table>
          <thead>
            <tr><th>Kernel</th><th>Agent</th><th class="right">CPU cores</th><th class="right">Memory</th><th class="right">Processes</th><th class="right">Devices</th><th>Problem</th></tr>
          </thead>
          <tbody>
            {use.view.items.map((one) => (
              <tr key={one.index}>
                <th scope="row">{one.index}</th>
                <td>{one.agent ?? "none"}</td>
                <td class="right">{figure("cpu", use.cores.get(one.index) ?? null, one)}</td>
                <td class="right">{figure("mem", one.memory_bytes, one)}</td>
                <td class="right">{one.processes ?? ""}</td>
                <td class="right">{deviceText(one)}</td>
                <td>{printable(one.error ?? "")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function deviceText(kernel: KernelUseView): string {
  const { use, memory, total } = deviceUseOf(Object.values(kernel.devices ?? {}));
  const held = memory === null ? "" : `, ${amount("mem", memory)} of ${amount("mem", total)}`;
  return use === null ? "" : `${Math.round(use)} %${held}`;
}

function figure(slot: string, value: number | null, kernel: KernelUseView): string {
  if (value === null) return "";
  const asked = kernel.slots[slot];
  return asked ? `${amount(slot, value)} of ${amount(slot, asked)}` : amount(slot, value);
}
