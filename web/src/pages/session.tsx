// One session: its lanes, why it is where it is, its kernels and their output.
import { useEffect, useState } from "preact/hooks";
import { Problem, call } from "../api.ts";
import { plural, printable, shellWords, slotsText } from "../format.ts";
import { given } from "../draft.ts";
import { extent, lanesOf, type Lane } from "../lanes.ts";
import { clusterTick, now, sessionRow, watch } from "../live/store.ts";
import { Age, Confirm, CopyCommand, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { Log } from "../parts/log.tsx";
import { useResource } from "../parts/resource.ts";
import { Terminal } from "../parts/terminal.tsx";
import { SessionUse } from "../parts/use.tsx";
import { Why } from "../parts/why.tsx";
import { href, query, setQuery } from "../router.ts";
import { ENDED, look } from "../states.ts";
import { duration } from "../format.ts";
import type { HistoryLine, HistoryView, KernelView, ProblemView, SessionSpecView, SessionView } from "../wire.ts";

const FOLDED = 16;

interface Whole {
  view: SessionView;
  lines: HistoryLine[];
}

export function SessionPage({ id }: { id: string }) {
  const row = sessionRow(id);
  useEffect(() => {
    watch([id]);
    return () => watch([]);
  }, [id]);
  // Kernels move without a change of their session.
  const tick = `${row?.status} ${row?.detail} ${row && ENDED.has(row.status) ? "" : clusterTick.value}`;
  const ref = encodeURIComponent(id);
  const found = useResource<Whole>(
    `session ${id}`,
    async (signal) => {
      const [view, history] = await Promise.all([
        call<SessionView>(`sessions/${ref}`, { signal }),
        call<HistoryView>(`sessions/${ref}/history?limit=500`, { signal }),
      ]);
      return { view, lines: history.lines };
    },
    tick,
  );
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={12} />;
  const { view, lines } = found.value;
  const name = view.name || view.id;
  const ended = ENDED.has(view.status);
  // Nothing but its deployment starts one.
  const replica = view.type === "inference";
  const kernel = Number(query.value.get("kernel") ?? 0);
  const stop = () => {
    setAsking(false);
    call(`sessions/${ref}`, { method: "DELETE" }).catch((error: unknown) => {
      if (error instanceof Problem) setProblem(error.view);
    });
  };
  return (
    <div class="session">
      <div class="bar">
        <h1>{name}</h1>
        <State status={view.status} result={view.result} />
        <span class="spring" />
        {replica ? null : <a class="button" href={href(`/new?like=${encodeURIComponent(view.id)}`)}>Run again</a>}
        {ended ? null : <button type="button" class="danger" onClick={() => setAsking(true)}>Stop</button>}
        <CopyCommand command={shellWords(["sokovan", "session", "show", name])} />
      </div>
      {problem ? <ProblemBox problem={problem} /> : null}
      <Facts
        items={[
          ["id", <code>{view.id}</code>],
          ["user", `${view.user} (${view.group})`],
          ["queue", `${view.queue} in ${view.scaling_group}, priority ${view.priority}`],
          ["kernels", `${view.size}${view.minimum < view.size ? `, at least ${view.minimum}` : ""}`],
          ["slots in all", slotsText(view.slots)],
          ["command", <code>{printable(shellWords(view.command)) || "none"}</code>],
          ["submitted", <><Age at={view.submitted_at} /> ago</>],
          ["in this state", <Age at={view.since} until={view.ended_at} />],
          ...(view.topology ? [["topology", `${view.topology}${view.hypernode ? ` in ${view.hypernode}` : ""}`] as const] : []),
          ...(view.reason ? [["reason", <><code>{view.reason}</code> {printable(view.reason_detail ?? "")}</>] as const] : []),
          ...(view.exit_code === null ? [] : [["exit code", String(view.exit_code)] as const]),
        ]}
      />
      <h2>Lanes</h2>
      <Lanes view={view} lines={lines} ended={ended} />
      <h2>Why</h2>
      <Why id={view.id} tick={`${view.status} ${view.reason_detail}`} />
      <SessionUse key={view.id} id={view.id} name={name} running={view.kernels.some((one) => one.status === "running")} />
      <h2>Log</h2>
      <Log
        session={view.id} name={name} kernels={view.kernels.map((one) => one.index)} kernel={kernel} ended={ended}
        started={view.kernels.find((one) => one.index === kernel)?.agent !== null}
        onKernel={(index) => setQuery({ kernel: String(index) })}
      />
      {view.kernels.find((one) => one.index === kernel)?.status === "running" ? (
        <>
          <h2>Terminal</h2>
          <Terminal key={`${view.id} ${kernel}`} session={view.id} name={name} kernel={kernel} />
        </>
      ) : null}
      {replica ? null : <Spec id={view.id} name={name} />}
      {asking ? (
        <Confirm
          title={`Stop ${name}?`} action="Stop" command={shellWords(["sokovan", "stop", name])} onYes={stop}
          onNo={() => setAsking(false)}
        />
      ) : null}
    </div>
  );
}

/** The request that submits it again, read when it is opened. */
function Spec({ id, name }: { id: string; name: string }) {
  const [open, setOpen] = useState(false);
  const found = useResource<SessionSpecView | null>(
    `spec ${id} ${open}`, (signal) => (open ? call(`sessions/${encodeURIComponent(id)}/spec`, { signal }) : Promise.resolve(null)),
  );
  return (
    <details class="spec" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>Spec</h2></summary>
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {found.value ? (
        <>
          <pre role="region" tabIndex={0} aria-label="request">{printable(JSON.stringify(given(found.value.body), null, 2))}</pre>
          {found.value.notes.map((note) => <p key={note} class="muted">{note}</p>)}
          <CopyCommand command={shellWords(["sokovan", "session", "spec", name])} />
        </>
      ) : null}
    </details>
  );
}

function Lanes({ view, lines, ended }: { view: SessionView; lines: readonly HistoryLine[]; ended: boolean }) {
  const [unfolded, setUnfolded] = useState(false);
  const until = ended && view.ended_at ? Date.parse(view.ended_at) : now.value;
  const lanes = lanesOf(view.id, lines, until);
  const [from, to] = extent(lanes);
  const kernels = new Map(view.kernels.map((one) => [one.id, one]));
  const shown = unfolded ? lanes : lanes.slice(0, FOLDED + 1);
  return (
    <div class="lanes" role="table" aria-label="states over time" tabIndex={0}>
      {shown.map((lane) => (
        <div key={lane.subject} class="lane" role="row">
          <LaneName kernel={kernels.get(lane.subject)} />
          <LaneSpans lane={lane} from={from} to={to} />
        </div>
      ))}
      {lanes.length > shown.length ? (
        <button type="button" onClick={() => setUnfolded(true)}>Show {plural(lanes.length - shown.length, "more kernel")}</button>
      ) : null}
    </div>
  );
}

function LaneName({ kernel }: { kernel: KernelView | undefined }) {
  if (!kernel) return <span role="rowheader" class="lane-name">session</span>;
  const where = kernel.agent ? <a href={`/ui/cluster?agent=${encodeURIComponent(kernel.agent)}`}>{kernel.agent}</a> : <span class="muted">no agent</span>;
  return (
    <span role="rowheader" class="lane-name">
      {kernel.role} {kernel.index} {where}{kernel.exit_code === null ? "" : ` exit ${kernel.exit_code}`}
    </span>
  );
}

function LaneSpans({ lane, from, to }: { lane: Lane; from: number; to: number }) {
  const share = (value: number) => `${((value - from) / (to - from)) * 100}%`;
  return (
    <span class="spans" role="cell">
      {lane.spans.map((span, index) => {
        const { mark, tone } = look(span.status);
        const lasted = duration((span.to - span.from) / 1000);
        return (
          <span
            key={index} class={`span ${tone}`} title={`${span.status} ${lasted}`}
            style={{ left: share(span.from), width: share(from + (span.to - span.from)) }}
          >
            <span aria-hidden="true">{mark}</span> {span.status} <span class="lasted">{lasted}</span>
          </span>
        );
      })}
    </span>
  );
}
