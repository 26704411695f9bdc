// The output of a kernel, as text: read by offset, followed while the kernel runs.
import { useEffect, useRef, useState } from "preact/hooks";
import type { LogChunk, ProblemView } from "../wire.ts";
import { call, Problem } from "../api.ts";
import { decoded, printable } from "../format.ts";
import { ProblemBox } from "./basics.tsx";
import { saveAs } from "./save.ts";

const PIECE = 65_536;
const POLL_MS = 1000;
// What is kept for the screen; the download has everything.
const SHOWN_MAX = 400_000;

interface LogProps {
  session: string;
  name: string;
  kernels: readonly number[];
  kernel: number;
  ended: boolean;
  /** Whether the kernel has been on an agent: otherwise there is no output to ask for. */
  started: boolean;
  onKernel: (index: number) => void;
}

export function Log({ session, name, kernels, kernel, ended, started, onKernel }: LogProps) {
  const [text, setText] = useState("");
  const [search, setSearch] = useState("");
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const [done, setDone] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const path = `sessions/${encodeURIComponent(session)}/kernels/${kernel}/log`;
  useEffect(() => {
    const stopped = new AbortController();
    const decoder = new TextDecoder();
    let offset = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setText("");
    setDone(false);
    setProblem(null);
    const next = async (): Promise<void> => {
      try {
        const chunk = await call<LogChunk>(`${path}?offset=${offset}&limit=${PIECE}`, { signal: stopped.signal });
        const bytes = decoded(chunk.data);
        offset = chunk.next_offset;
        if (bytes.length) {
          const more = printable(decoder.decode(bytes, { stream: true }));
          setText((before) => (before + more).slice(-SHOWN_MAX));
        }
        if (chunk.end) setDone(true);
        else timer = setTimeout(() => void next(), bytes.length === PIECE ? 0 : POLL_MS);
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setProblem(error.view);
        if (error.view.status === 0 || error.view.status >= 429) timer = setTimeout(() => void next(), 5 * POLL_MS);
      }
    };
    if (started) void next();
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [path, ended, started]);
  useEffect(() => {
    const element = box.current;
    if (element && element.scrollHeight - element.scrollTop - element.clientHeight < 200) element.scrollTop = element.scrollHeight;
  }, [text]);
  const lines = text.split("\n");
  const wanted = search.toLowerCase();
  const shown = wanted ? lines.filter((line) => line.toLowerCase().includes(wanted)) : lines;
  return (
    <section class="log" aria-label="log">
      <div class="bar">
        <label>
          kernel{" "}
          <select value={String(kernel)} onChange={(event) => onKernel(Number(event.currentTarget.value))}>
            {kernels.map((index) => <option key={index} value={String(index)}>{index}</option>)}
          </select>
        </label>
        <input
          type="search" placeholder="find in this log" aria-label="find in this log" value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <span class="muted">{wanted ? `${shown.length} of ${lines.length} lines` : done ? "complete" : started ? "following" : "the kernel has not started"}</span>
        <button type="button" onClick={() => void download(path, `${name}-${kernel}.log`).catch(() => undefined)}>Download</button>
      </div>
      {problem ? <ProblemBox problem={problem} /> : null}
      <pre ref={box} role="region" tabIndex={0} aria-label="output">{text ? shown.join("\n") : done ? "(no output)" : ""}</pre>
    </section>
  );
}

/** Save the whole output, as the bytes it is. */
async function download(path: string, name: string): Promise<void> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (;;) {
    const chunk = await call<LogChunk>(`${path}?offset=${offset}&limit=${PIECE}`);
    const bytes = decoded(chunk.data);
    parts.push(bytes as Uint8Array<ArrayBuffer>);
    if (chunk.end || chunk.next_offset === offset) break;
    offset = chunk.next_offset;
  }
  saveAs(parts, name);
}
