// The output of several kernels together, line by line as it comes: some of them, or those with a text.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { KernelView, LogChunk, ProblemView } from "../wire.ts";
import { pieces, Problem } from "../api.ts";
import { decoded, plural, shellWords } from "../format.ts";
import { linesWith, placeWithout, type RankLine, RankLines, ranksOf, ranksText, rankText, TOGETHER_MAX } from "../ranks.ts";
import { query } from "../router.ts";
import { CopyCommand, ProblemBox } from "./basics.tsx";
import { FilterInput } from "./filter.tsx";
import { saveAs } from "./save.ts";

// Of each kernel, to begin with.
const TAIL = 200;
const POLL_MS = 1_000;
const POLL_MAX_MS = 5_000;

export interface RankLogProps {
  session: string;
  name: string;
  size: number;
  kernels: readonly KernelView[];
  ended: boolean;
}

export function RankLog({ session, name, size, kernels, ended }: RankLogProps) {
  const asked = query.value.get("kernels") ?? "";
  const { kernels: chosen, problem: wrong } = ranksOf(asked, size);
  const all = chosen.length === size;
  const [search, setSearch] = useState("");
  const [lines, setLines] = useState<RankLine[]>([]);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const [done, setDone] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const path = `sessions/${encodeURIComponent(session)}/log${all ? "" : `?kernel=${chosen.join(",")}`}`;
  // A kernel that is started again begins a new output.
  const attempts = useRef(new Map<number, number>());
  const again = useRef(new Set<number>());
  for (const one of kernels) {
    if ((attempts.current.get(one.index) ?? one.attempt) !== one.attempt) again.current.add(one.index);
    attempts.current.set(one.index, one.attempt);
  }
  useEffect(() => {
    const stopped = new AbortController();
    const found = new RankLines();
    let place = "";
    let pause = POLL_MS;
    let timer: ReturnType<typeof setTimeout> | undefined;
    again.current.clear();
    setLines([]);
    setDone(false);
    setProblem(null);
    const next = async (first: boolean): Promise<void> => {
      const over = new Set<number>();
      let came = false;
      place = placeWithout(place, again.current);
      again.current.clear();
      const joint = path.includes("?") ? "&" : "?";
      try {
        place = await pieces<LogChunk>(first ? `${path}${joint}tail=${TAIL}` : path, place, stopped.signal, (part) => {
          const bytes = decoded(part.data);
          found.feed(part.kernel, bytes, part.end);
          came ||= bytes.length > 0;
          if (part.end) over.add(part.kernel);
        });
        setProblem(null);
        if (came) setLines(found.all());
        if (over.size >= chosen.length) {
          setLines(found.all());
          setDone(true);
          return;
        }
        pause = came ? POLL_MS : Math.min(POLL_MAX_MS, pause * 1.5);
        // What was written before the tail is not read: without a place, the beginning would be.
        timer = setTimeout(() => void next(first && !place), pause);
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (!(error instanceof Problem)) throw error;
        setProblem(error.view);
        if (error.view.status === 0 || error.view.status >= 429) timer = setTimeout(() => void next(first && !place), POLL_MAX_MS);
      }
    };
    void next(true);
    return () => {
      stopped.abort();
      clearTimeout(timer);
    };
  }, [path, ended]);
  // The end is shown until someone scrolls away from it.
  const atEnd = useRef(true);
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const shown = linesWith(lines, search);
  const text = useMemo(() => rankText(shown), [lines, search]);
  const only = all ? [] : ["--kernel", ranksText(chosen)];
  const command = ["sokovan", "logs", name, ...(ended ? [] : ["--follow"]), ...only, ...(search ? ["--search", search] : [])];
  return (
    <section class="log" aria-label="log">
      <div class="bar">
        <label>kernels <FilterInput name="kernels" placeholder={`all, or 0-${Math.min(3, size - 1)}`} /></label>
        <input
          type="search" placeholder="find in these logs" aria-label="find in these logs" value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <span class="muted" role="status">{search ? `${shown.length} of ${plural(lines.length, "line")}` : done ? "complete" : "following"}, {plural(chosen.length, "kernel")}</span>
        <button type="button" onClick={() => void download(path, `${name}.log`).catch(() => undefined)}>Download</button>
        <CopyCommand command={shellWords(command)} />
      </div>
      {wrong ? <p class="muted" role="alert">{wrong}</p> : null}
      {!asked && size > TOGETHER_MAX ? <p class="muted">These are the first {TOGETHER_MAX} of {size} kernels; name others above.</p> : null}
      {problem ? <ProblemBox problem={problem} /> : null}
      <pre
        ref={box} role="region" tabIndex={0} aria-label="output"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => (atEnd.current = scrollHeight - scrollTop - clientHeight < 200)}
      >{text || (lines.length ? "(no line with this text)" : done ? "(no output)" : "")}</pre>
      <p class="muted">Lines stand in the order in which they come. Of what was written before, these are the last {TAIL} of each kernel, one kernel after the other.</p>
    </section>
  );
}

/** Save the whole output, each line after its kernel. */
async function download(path: string, name: string): Promise<void> {
  const parts: string[] = [];
  const rests = new Map<number, { decoder: TextDecoder; text: string }>();
  await pieces<LogChunk>(path, "", null, (part) => {
    const rest = rests.get(part.kernel) ?? { decoder: new TextDecoder(), text: "" };
    rests.set(part.kernel, rest);
    const lines = (rest.text + rest.decoder.decode(decoded(part.data), { stream: !part.end })).split("\n");
    rest.text = lines.pop() ?? "";
    for (const line of lines) parts.push(`[${part.kernel}] ${line}\n`);
  });
  for (const [kernel, rest] of [...rests].sort(([one], [other]) => one - other)) if (rest.text) parts.push(`[${kernel}] ${rest.text}\n`);
  saveAs(parts, name);
}
