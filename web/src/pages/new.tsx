// A new session: a form, the same as YAML and as a command line, and whether it would start now.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Problem, all, call, newKey } from "../api.ts";
import { plural, shellWords } from "../format.ts";
import { commandLine, type Draft, bodyOf, draftOf, EMPTY, formOf, keptOf, textOf, typedOf, unfinished } from "../draft.ts";
import { victimText } from "../facts.ts";
import { CopyCommand, ProblemBox } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { go, href, query } from "../router.ts";
import { countBy } from "../rows.ts";
import type { PlanView, ProblemView, QueueBody, SessionSpecView, SessionView } from "../wire.ts";

const WAIT_MS = 300;
const BADGES: Record<string, string> = { now: "would start now", waits: "would wait", never: "can never start" };

export function NewPage() {
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [base, setBase] = useState<SessionSpecView | null>(null);
  const [secrets, setSecrets] = useState<Record<string, string>>({});
  // The request as YAML, while it is written so.
  const [text, setText] = useState<string | null>(null);
  const [refusal, setRefusal] = useState<ProblemView | null>(null);
  const [busy, setBusy] = useState(false);
  // One key for one request: sending it twice makes one session.
  const key = useRef(newKey());
  const queues = useResource<QueueBody[]>("queue names", (signal) => all("queues", signal));
  // Secret values are sent with the request itself only, never to plan.
  const typed = useMemo(() => (text === null ? null : typedOf(text)), [text]);
  const body = useMemo(() => typed?.body ?? bodyOf(draft, base?.body), [draft, base, typed]);
  const grouped = Boolean(body.groups?.length);
  // The server would refuse what is not typed to its end.
  const typing = typed || grouped ? "" : unfinished(draft);
  const ready = !typing && !typed?.problem && (grouped || (typed ? Object.keys(body).length > 0 : Boolean(body.command?.length)));
  const line = text === null && (!base || base.session) ? commandLine(draft, base) : fileLine(base?.secrets ?? []);
  const like = query.value.get("like") ?? "";
  useEffect(() => {
    if (!like) return;
    const stopped = new AbortController();
    call<SessionSpecView>(`sessions/${encodeURIComponent(like)}/spec`, { signal: stopped.signal }).then(
      (view) => {
        setBase(view);
        setDraft(draftOf(view));
      },
      (error: unknown) => {
        if (error instanceof Problem) setRefusal(error.view);
      },
    );
    return () => stopped.abort();
  }, [like]);
  // What was sent is not planned any more: on a busy server its own name would be taken by then.
  const sending = useRef(new AbortController());
  const dryRun = (signal: AbortSignal): Promise<PlanView | null> => {
    const sent = sending.current.signal;
    if (!ready || sent.aborted) return Promise.resolve(null);
    return call<PlanView>("sessions/plan", { method: "POST", body: { ...body, secrets: {} }, signal: AbortSignal.any([signal, sent]) }).catch((error: unknown) => {
      if (sent.aborted) return null;
      throw error;
    });
  };
  // One dry run at a time: the server would go on with those that are given up here.
  const planned = useResource<PlanView | null>("plan", dryRun, body, WAIT_MS);
  const plan = planned.problem || !ready ? null : planned.value;
  const problem = refusal ?? planned.problem;
  const change = (changes: Partial<Draft>) => {
    setRefusal(null);
    key.current = newKey();
    setDraft({ ...draft, ...changes });
  };
  const write = (next: string | null) => {
    setRefusal(null);
    key.current = newKey();
    setText(next);
  };
  const showForm = () => {
    if (!typed?.body) return;
    const [form, rest] = formOf(typed.body, base);
    setDraft(form);
    setBase(rest);
    write(null);
  };
  const send = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    sending.current.abort();
    call<SessionView>("sessions", { method: "POST", body: { ...body, ...(base?.secrets.length ? { secrets: { ...body.secrets, ...secrets } } : {}) }, key: key.current }).then(
      (view) => go(`/sessions/${encodeURIComponent(view.id)}`),
      (error: unknown) => {
        setBusy(false);
        if (error instanceof Problem) setRefusal(error.view);
        sending.current = new AbortController();
        planned.retry();
      },
    );
  };
  const field = (name: keyof Draft, label: string, hint: string, wide = false) => (
    <label class={wide ? "wide" : ""}>
      {label}
      <input value={draft[name]} placeholder={hint} spellcheck={false} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <form class="new" onSubmit={send}>
      <div class="bar">
        <h1>New session</h1>
        <div class="chips" role="group" aria-label="written as">
          <button type="button" aria-pressed={text === null} disabled={Boolean(typed?.problem)} onClick={showForm}>form</button>
          <button type="button" aria-pressed={text !== null} onClick={() => text === null && write(textOf(body))}>YAML</button>
        </div>
      </div>
      {text === null ? null : (
        <label class="yaml">
          Request
          <textarea
            rows={14} spellcheck={false} value={text} aria-invalid={Boolean(typed?.problem)} aria-describedby="yaml-problem"
            onInput={(event) => write(event.currentTarget.value)}
          />
          <span id="yaml-problem" class="yaml-problem" role="status">{typed?.problem}</span>
        </label>
      )}
      <div class="fields">
        {text === null ? <>
        {grouped ? null : field("command", "Command", "python train.py", true)}
        {field("name", "Name", "made up, if empty")}
        <label>
          Queue
          <select value={draft.queue} onChange={(event) => change({ queue: event.currentTarget.value })}>
            <option value="">the usual one</option>
            {(queues.value ?? []).map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select>
        </label>
        {grouped ? null : <>
          {field("size", "Kernels", "1")}
          {field("cpus", "CPU of each", "1")}
          {field("mem", "Memory of each", "1GiB")}
          {field("gpus", "GPU of each", "0")}
        </>}
        {field("topology", "Topology", "hard:rack or soft")}
        {field("where", "Labels of agents", "nvme exists")}
        </> : null}
        {(base?.secrets ?? []).map((name) => (
          <label key={name}>
            Secret {name}
            <input
              type="password" autocomplete="off" value={secrets[name] ?? ""}
              onInput={(event) => {
                key.current = newKey();
                setSecrets({ ...secrets, [name]: event.currentTarget.value });
              }}
            />
          </label>
        ))}
      </div>
      {base && text === null ? <Kept base={base} /> : null}
      <div class="badge-box" aria-live="polite">
        {plan ? (
          <p class={`badge ${plan.would_start}`}>
            <strong>{BADGES[plan.would_start] ?? plan.would_start}</strong> {plan.summary}
            {plan.placements.length ? <span class="muted"> · on {plural(new Set(plan.placements.map((one) => one.agent)).size, "agent")}</span> : null}
            {plan.evicts.length ? <span class="muted"> · would evict {plural(plan.evicts.length, "session")}</span> : null}
          </p>
        ) : null}
        {plan ? <PlanDetails plan={plan} /> : null}
        {!ready && !typing && !typed?.problem ? <p class="muted">Enter a command, to see here when and where the session would run.</p> : null}
        {typing ? <p class="muted">{typing}</p> : null}
        {problem ? <ProblemBox problem={problem} /> : null}
      </div>
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || !ready || (base?.secrets ?? []).some((name) => !secrets[name])}>Submit</button>
        {line && !typing && !typed?.problem ? <CopyCommand command={line} /> : null}
      </div>
    </form>
  );
}

/** The command that submits the text, once it is in a file. */
function fileLine(secrets: readonly string[]): string {
  return shellWords(["sokovan", "run", ...secrets.flatMap((one) => ["--secret-env", one]), "-f", "session.yaml"]);
}

/** What the session has of the one that it is like, beyond the form. */
function Kept({ base }: { base: SessionSpecView }) {
  const kept = keptOf(base.body);
  return (
    <div class="kept">
      <p class="muted">
        {base.session ? <>like <a href={`/ui/sessions/${encodeURIComponent(base.session)}`}>{base.session}</a>; kept from it: </> : "as YAML it also says: "}
        {kept.join(", ") || "nothing"}
      </p>
      {base.notes.map((note) => <p key={note} class="muted">{note}</p>)}
    </div>
  );
}

const MARKS: Record<string, string> = { ok: "✓", no: "✕", short: "!" };

/** The plan in full: the checks, what remains of the agents, the places, and whom it would evict. */
function PlanDetails({ plan }: { plan: PlanView }) {
  const places = [...countBy(plan.placements, (one) => one.agent)];
  const funnel = Object.entries(plan.funnel);
  return (
    <details class="plan">
      <summary>What if it were submitted now</summary>
      <p class="muted">in queue {plan.queue} of {plan.scaling_group}{plan.position ? `, ${plan.position} ahead of it` : ""}</p>
      {plan.checks.length ? (
        <ul class="checks" aria-label="checks">
          {plan.checks.map((check, index) => (
            <li key={index} class={check.result}><span class="mark" aria-hidden="true">{MARKS[check.result] ?? "·"}</span><span>{check.name} <span class="muted">{check.result}</span> {check.detail}</span></li>
          ))}
        </ul>
      ) : null}
      {funnel.length ? <p class="funnel" aria-label="agents that remain after each check">{funnel.map(([name, count]) => <span key={name}>{name.replaceAll("_", " ")} <strong>{count}</strong></span>)}</p> : null}
      {places.length ? (
        <ul aria-label="places">{places.map(([agent, kernels]) => <li key={agent}><a href={`/ui/cluster?agent=${encodeURIComponent(agent)}`}>{agent}</a> <span class="muted">{plural(kernels, "kernel")}</span></li>)}</ul>
      ) : null}
      {plan.evicts.length ? <ul aria-label="evictions">{plan.evicts.map((one, index) => <li key={index}>{one.session ? <a href={href(`/sessions/${encodeURIComponent(one.session)}`)}>{victimText(one)}</a> : victimText(one)} <span class="muted">{plural(one.kernels, "kernel")}</span></li>)}</ul> : null}
    </details>
  );
}
