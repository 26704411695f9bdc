// One session: its lanes, why it is where it is, its kernels and their output.
import { Fragment } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { all, Problem, call } from "../api.ts";
import { plural, printable, shellWords, slotsText } from "../format.ts";
import { textOf } from "../draft.ts";
import { evictionText, failedStartText, rareFacts, timeTo } from "../facts.ts";
import { GrowingList } from "../growing.ts";
import { extent, lanesOf, type Lane } from "../lanes.ts";
import { clusterTick, now, sessionRow, watch } from "../live/store.ts";
import { Age, Confirm, CopyCommand, Facts, ProblemBox, Skeleton, State } from "../parts/basics.tsx";
import { later } from "../parts/later.tsx";
import { Log } from "../parts/log.tsx";
import { useResource } from "../parts/resource.ts";
import { SessionUse } from "../parts/use.tsx";
import { Why } from "../parts/why.tsx";
import { href, query, setQuery } from "../router.ts";
import { ENDED, look } from "../states.ts";
import { duration } from "../format.ts";
import type { HistoryLine, HistoryView, KernelView, ProblemView, SessionSpecView, SessionView } from "../wire.ts";

// Not every session has several kernels, or is looked into.
const RankLog = later(async () => (await import("../parts/ranklog.tsx")).RankLog);
const Terminal = later(async () => (await import("../parts/terminal.tsx")).Terminal);
const FOLDED = 16;
const PAGE = 500;
// Kernels that have a lane, a log and a terminal here.
const KERNELS_MAX = 1_000;
// Of a session with more of them the history begins with the first states of all.
const PAGES_MAX = 20;
const PAGES_OF_MANY = 2;

interface Whole {
  view: SessionView;
  kernels: KernelView[];
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
  const history = useMemo(() => new GrowingList<HistoryLine>(), [id]);
  const found = useResource<Whole>(
    `session ${id}`,
    async (signal) => {
      const view = await call<SessionView>(`sessions/${ref}`, { signal });
      const page = async (cursor: string) => {
        const found = await call<HistoryView>(`sessions/${ref}/history?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`, { signal });
        return { items: found.lines, next: found.next };
      };
      const [kernels, lines] = await Promise.all([
        view.size > view.kernels.length ? all<KernelView>(`sessions/${ref}/kernels`, signal, KERNELS_MAX) : view.kernels,
        history.read(page, view.size > KERNELS_MAX ? PAGES_OF_MANY : PAGES_MAX),
      ]);
      return { view, kernels, lines };
    },
    tick,
  );
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={12} />;
  const { view, kernels, lines } = found.value;
  const name = view.name || view.id;
  const ended = ENDED.has(view.status);
  // Nothing but its deployment starts one.
  const replica = view.type === "inference";
  const kernel = Number(query.value.get("kernel") ?? 0);
  const together = view.size > 1 && !query.value.get("kernel");
  const chosen = kernels.find((one) => one.index === kernel);
  const stop = () => {
    setAsking(false);
    call(`sessions/${ref}`, { method: "DELETE" }).catch((error: unknown) => {
      if (error instanceof Problem) setProblem(error.view);
    });
  };
  const lanes = (
    <section key="lanes" aria-label="lanes">
      <h2>Lanes</h2>
      <Lanes view={view} kernels={kernels} lines={lines} ended={ended} />
    </section>
  );
  const why = (
    <section key="why" aria-label="why">
      <h2>Why</h2>
      <Why id={view.id} tick={`${view.status} ${view.reason_detail}`} />
    </section>
  );
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
          ...(view.booking ? [["booking", <a href={href(`/bookings/${encodeURIComponent(view.booking)}`)}>{view.booking}</a>] as const] : []),
          ...(view.topology ? [["topology", `${view.topology}${view.hypernode ? ` in ${view.hypernode}` : ""}`] as const] : []),
          ...(view.reason ? [["reason", <><code>{view.reason}</code> {printable(view.reason_detail ?? "")}</>] as const] : []),
          ...(view.exit_code === null ? [] : [["exit code", String(view.exit_code)] as const]),
          ...(view.depends_on.length ? [["depends on", <Links ids={view.depends_on} />] as const] : []),
          ...rareFacts(view).map(([fact, text]) => [fact, printable(text)] as const),
          ...([["starts", view.starts_at], ["times out", ended ? null : view.times_out_at]] as const).flatMap(([fact, at]) => {
            const text = timeTo(at, now.value);
            return text && at ? [[fact, <time dateTime={at} title={at}>{text}{fact === "times out" ? ", unless it starts before" : ""}</time>] as const] : [];
          }),
        ]}
      />
      <Setbacks view={view} />
      {view.status === "pending" ? [why, lanes] : [lanes, why]}
      <SessionUse key={view.id} id={view.id} name={name} running={kernels.some((one) => one.status === "running")} />
      <h2>Log</h2>
      {view.size > 1 ? (
        <div class="chips" role="group" aria-label="output of">
          <button type="button" aria-pressed={together} onClick={() => setQuery({ kernel: "" })}>all kernels</button>
          <button type="button" aria-pressed={!together} onClick={() => setQuery({ kernel: String(kernel), kernels: "" })}>one kernel</button>
        </div>
      ) : null}
      {together ? <RankLog session={view.id} name={name} size={view.size} kernels={kernels} ended={ended} /> : (
        <Log
          session={view.id} name={name} kernels={kernels.map((one) => one.index)} kernel={kernel} ended={ended}
          started={chosen?.agent !== null}
          onKernel={(index) => setQuery({ kernel: String(index) })}
        />
      )}
      {chosen?.status === "running" ? (
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

/** Other sessions, by their ids. */
function Links({ ids }: { ids: readonly string[] }) {
  return <>{ids.map((one, index) => <Fragment key={one}>{index ? ", " : ""}<a href={href(`/sessions/${encodeURIComponent(one)}`)}>{one}</a></Fragment>)}</>;
}

/** Starts that failed, and evictions, the last first. */
function Setbacks({ view }: { view: SessionView }) {
  const lines = [
    ...view.failed_starts.map((one) => ({ at: one.at, what: "failed start", text: failedStartText(one) })),
    ...view.evictions.map((one) => ({ at: one.at, what: one.action, text: evictionText(one) })),
  ].sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
  if (!lines.length) return null;
  return (
    <section class="setbacks" aria-label="failed starts and evictions">
      <h2>Failed starts and evictions</h2>
      <ul>{lines.map((one) => <li key={`${one.at} ${one.text}`}><Age at={one.at} /> ago, {one.what} <span>{printable(one.text)}</span></li>)}</ul>
    </section>
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
          <pre role="region" tabIndex={0} aria-label="request">{printable(textOf(found.value.body))}</pre>
          {found.value.notes.map((note) => <p key={note} class="muted">{note}</p>)}
          <CopyCommand command={shellWords(["sokovan", "session", "spec", name])} />
        </>
      ) : null}
    </details>
  );
}

interface LanesProps {
  view: SessionView;
  kernels: readonly KernelView[];
  lines: readonly HistoryLine[];
  ended: boolean;
}

function Lanes({ view, kernels, lines, ended }: LanesProps) {
  const [unfolded, setUnfolded] = useState(false);
  const until = ended && view.ended_at ? Date.parse(view.ended_at) : now.value;
  const lanes = lanesOf([view, ...kernels], lines, until);
  const [from, to] = extent(lanes);
  const named = new Map(kernels.map((one) => [one.id, one]));
  const shown = unfolded ? lanes : lanes.slice(0, FOLDED + 1);
  return (
    <>
      <div class="lanes" role="table" aria-label="states over time" tabIndex={0}>
        {shown.map((lane) => (
          <div key={lane.subject} class="lane" role="row">
            <LaneName kernel={named.get(lane.subject)} />
            <LaneSpans lane={lane} from={from} to={to} />
          </div>
        ))}
      </div>
      {lanes.length > shown.length ? (
        <button type="button" onClick={() => setUnfolded(true)}>Show {plural(lanes.length - shown.length, "more kernel")}</button>
      ) : null}
      {view.size > kernels.length ? (
        <div class="actions">
          <span class="muted">The first {kernels.length} kernels are here; the others, {view.size - kernels.length}, are not.</span>
          <CopyCommand command={shellWords(["sokovan", "session", "show", view.name || view.id, "--all-kernels"])} />
        </div>
      ) : null}
    </>
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
