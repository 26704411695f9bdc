// A new deployment, and a new revision of one: the same form, and the command that does the same.
import { useRef, useState } from "preact/hooks";
import { all, call, newKey } from "../api.ts";
import { shellWords } from "../format.ts";
import { useAction } from "../parts/action.ts";
import { CopyCommand, ProblemBox } from "../parts/basics.tsx";
import { useResource } from "../parts/resource.ts";
import { go } from "../router.ts";
import {
  deploymentFrom, ENGINES, revisionFrom, rolloutFrom, SERVED, serveLine, type ServedDraft, servedOf, STRATEGIES, unfinishedServed, updateLine,
} from "../served.ts";
import type { DeploymentView, EngineView, QueueBody } from "../wire.ts";

interface FieldsProps {
  draft: ServedDraft;
  change: (changes: Partial<ServedDraft>) => void;
}

function Text({ draft, change, name, label, hint, wide = false }: FieldsProps & { name: keyof ServedDraft; label: string; hint: string; wide?: boolean }) {
  return (
    <label class={wide ? "wide" : ""}>
      {label}
      <input value={draft[name]} placeholder={hint} spellcheck={false} onInput={(event) => change({ [name]: event.currentTarget.value })} />
    </label>
  );
}

function Choice({ draft, change, name, label, choices }: FieldsProps & { name: keyof ServedDraft; label: string; choices: readonly string[] }) {
  return (
    <label>
      {label}
      <select value={draft[name]} onChange={(event) => change({ [name]: event.currentTarget.value })}>
        {choices.map((one) => <option key={one} value={one}>{one || "the usual one"}</option>)}
      </select>
    </label>
  );
}

/** What each replica runs. */
function ReplicaFields(props: FieldsProps) {
  const { engine } = props.draft;
  const engines = (ENGINES as readonly string[]).includes(engine) ? ENGINES : [engine, ...ENGINES];
  return (
    <>
      <Choice {...props} name="engine" label="Engine" choices={engines} />
      {engine === "toy" ? null : <Text {...props} name="model" label="Model" hint="Qwen/Qwen3-8B" />}
      <Text {...props} name="cpus" label="CPU of each" hint="1" />
      <Text {...props} name="mem" label="Memory of each" hint="1GiB" />
      <Text {...props} name="gpus" label="GPU of each" hint="0" />
      <Text {...props} name="arguments" label={engine === "custom" ? "Command" : "Arguments of the engine"} hint="--max-model-len 8192" wide />
    </>
  );
}

export function ServePage() {
  const [draft, setDraft] = useState<ServedDraft>(SERVED);
  const [plan, setPlan] = useState<EngineView | null>(null);
  const action = useAction();
  // One key for one request: sending it twice makes one deployment.
  const key = useRef(newKey());
  const queues = useResource<QueueBody[]>("queue names", (signal) => all("queues", signal));
  const change = (changes: Partial<ServedDraft>) => {
    key.current = newKey();
    setPlan(null);
    setDraft({ ...draft, ...changes });
  };
  const send = (event: Event) => {
    event.preventDefault();
    action.run(() => call<DeploymentView>("deployments", { method: "POST", body: deploymentFrom(draft), key: key.current })
      .then((view) => go(`/deployments/${encodeURIComponent(view.id)}`)));
  };
  const typing = unfinishedServed(draft);
  const look = () => action.run(() => call<EngineView>("deployments/plan", { method: "POST", body: deploymentFrom(draft) }).then(setPlan));
  const props = { draft, change };
  return (
    <form class="new" onSubmit={send}>
      <div class="bar"><h1>New deployment</h1></div>
      <div class="fields">
        <Text {...props} name="name" label="Name" hint="chat" />
        <ReplicaFields {...props} />
        <Text {...props} name="replicas" label="Replicas" hint="1" />
        <Text {...props} name="most" label="Most replicas" hint="as many" />
        <Choice {...props} name="access" label="Access" choices={["private", "project", "public"]} />
        <Choice {...props} name="queue" label="Queue" choices={["", ...(queues.value ?? []).map((one) => one.name)]} />
      </div>
      {plan ? <p class="badge now">Each replica runs <code>{shellWords(plan.command)}</code></p> : null}
      {typing ? <p class="muted" role="status">{typing}</p> : null}
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      <div class="actions">
        <button type="submit" class="primary" disabled={action.busy || Boolean(typing) || !draft.name.trim()}>Serve</button>
        <button type="button" disabled={action.busy || Boolean(typing) || !draft.name.trim()} onClick={look}>Show the command of a replica</button>
        {typing ? null : <CopyCommand command={shellWords(serveLine(draft))} />}
      </div>
    </form>
  );
}

/** A form that begins a rollout. */
export function UpdateForm({ view, path, done }: { view: DeploymentView; path: string; done: () => void }) {
  const [draft, setDraft] = useState<ServedDraft>(() => servedOf(view));
  const action = useAction(done);
  const before = view.revision.revision;
  const same = JSON.stringify(revisionFrom(draft, before)) === JSON.stringify(revisionFrom(servedOf(view), before));
  const typing = unfinishedServed(draft);
  const change = (changes: Partial<ServedDraft>) => setDraft({ ...draft, ...changes });
  const send = (event: Event) => {
    event.preventDefault();
    action.run(() => call(`${path}/update`, { method: "POST", body: { revision: revisionFrom(draft, before), rollout: rolloutFrom(draft, view.rollout_policy) } }));
  };
  const props = { draft, change };
  return (
    <form class="new panel" onSubmit={send} aria-label="new revision">
      <div class="fields">
        <ReplicaFields {...props} />
        <Choice {...props} name="strategy" label="Strategy" choices={STRATEGIES} />
      </div>
      {typing ? <p class="muted" role="status">{typing}</p> : null}
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      <div class="actions">
        <button type="submit" class="primary" disabled={action.busy || same || Boolean(typing)}>Update</button>
        {typing ? null : <CopyCommand command={shellWords(updateLine(draft))} />}
      </div>
    </form>
  );
}
