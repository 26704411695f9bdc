// Administration: users, groups, quotas and queues, scaling groups, keys and logins.
import { useState } from "preact/hooks";
import { all, call } from "../api.ts";
import { KINDS, bodyFrom, shown, type CatalogKind, type Item } from "../catalog.ts";
import { shellWords } from "../format.ts";
import { untoldTick } from "../live/store.ts";
import { useAction } from "../parts/action.ts";
import { Age, Confirm, CopyCommand, Empty, ProblemBox, Skeleton } from "../parts/basics.tsx";
import { AuditLog } from "../parts/auditlog.tsx";
import { Limits } from "../parts/limits.tsx";
import { useResource } from "../parts/resource.ts";
import { query, setQuery } from "../router.ts";
import { me } from "../session.ts";
import type { KeyView, LoginView, NewKeyView } from "../wire.ts";

const OWN = [["keys", "Keys"], ["logins", "Logins"]] as const;

export function AdminPage() {
  if (!me.value) return <Skeleton lines={6} />;
  const isAdmin = me.value.role !== "user";
  const tabs: (readonly [string, string])[] = isAdmin ? [...KINDS.map((kind) => [kind.path, kind.title] as const), ...OWN, ...(me.value.role === "admin" ? [["log", "Audit log"] as const] : [])] : [...OWN];
  const asked = query.value.get("tab") ?? tabs[0]?.[0] ?? "";
  const tab = tabs.some(([path]) => path === asked) ? asked : "";
  const kind = KINDS.find((one) => one.path === tab);
  return (
    <div class="admin">
      <div class="bar">
        <h1>{isAdmin ? "Administration" : "Access"}</h1>
        <div class="chips" role="group" aria-label="what">
          {tabs.map(([path, title]) => <button key={path} type="button" aria-pressed={path === tab} onClick={() => setQuery({ tab: path, edit: "", cursor: "" })}>{title}</button>)}
        </div>
      </div>
      {kind ? <Catalog key={kind.path} kind={kind} /> : tab === "keys" ? <Keys /> : tab === "logins" ? <Logins /> : tab === "log" ? <AuditLog /> : <Empty title="This is for administrators." />}
    </div>
  );
}

/** What the words of a page call one of them. */
function nounOf(kind: CatalogKind): string {
  return kind.noun.replace("-", " ");
}

function Catalog({ kind }: { kind: CatalogKind }) {
  const found = useResource<Item[]>(kind.path, (signal) => all(kind.path, signal), untoldTick.value);
  const [removing, setRemoving] = useState("");
  const action = useAction(found.retry);
  const editing = query.value.get("edit") ?? "";
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  const items = found.value;
  const isAdmin = me.value?.role === "admin";
  const current = items.find((one) => one["name"] === editing) ?? null;
  const remove = () => {
    setRemoving("");
    action.run(() => call(`${kind.path}/${encodeURIComponent(removing)}`, { method: "DELETE" }));
  };
  return (
    <>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      {items.length ? (
        <div class="table-box" tabIndex={0} role="region" aria-label={kind.title}>
          <table>
            <thead><tr><th>Name</th>{kind.fields.map((field) => <th key={field.name}>{field.label}</th>)}<th>Action</th></tr></thead>
            <tbody>
              {items.map((item) => (
                <tr key={String(item["name"])}>
                  <th scope="row">{String(item["name"])}</th>
                  {kind.fields.map((field) => <td key={field.name}>{shown(field, item[field.name]) || "–"}</td>)}
                  <td>
                    {isAdmin ? (
                      <span class="pair">
                        <button type="button" onClick={() => setQuery({ edit: String(item["name"]) })}>Edit</button>
                        <button type="button" class="danger" onClick={() => setRemoving(String(item["name"]))}>Remove</button>
                      </span>
                    ) : "–"}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title={`There is no ${nounOf(kind)} yet.`} command={`sokovan ${kind.noun} set --help`} />
      )}
      <div class="actions"><CopyCommand command={`sokovan ${kind.noun} ls`} /></div>
      {kind.path === "scaling-groups" ? items.map((item) => <Options key={String(item["name"])} item={item} />) : null}
      {kind.path === "policies" ? <Limits /> : null}
      {isAdmin ? <CatalogForm key={current ? `edit ${editing}` : "new"} kind={kind} item={current} onDone={() => { setQuery({ edit: "" }); found.retry(); }} /> : null}
      {removing ? <Confirm title={`Remove ${nounOf(kind)} ${removing}?`} action="Remove" command={shellWords(["sokovan", kind.noun, "rm", removing])} onYes={remove} onNo={() => setRemoving("")} /> : null}
    </>
  );
}

/** Everything that is set of an item, with what its form does not have. */
function Options({ item }: { item: Item }) {
  return (
    <details>
      <summary>All options of {String(item["name"])}</summary>
      <dl class="facts">
        {Object.entries(item).filter(([name]) => name !== "name").map(([name, value]) => (
          <div key={name}><dt>{name.replaceAll("_", " ")}</dt><dd><code>{typeof value === "string" ? value : JSON.stringify(value)}</code></dd></div>
        ))}
      </dl>
    </details>
  );
}

function CatalogForm({ kind, item, onDone }: { kind: CatalogKind; item: Item | null; onDone: () => void }) {
  const [name, setName] = useState(item ? String(item["name"]) : "");
  const [texts, setTexts] = useState<Record<string, string>>(Object.fromEntries(kind.fields.map((field) => [field.name, item ? shown(field, item[field.name]) : ""])));
  const action = useAction(() => {
    if (!item) {
      setName("");
      setTexts({});
    }
    onDone();
  });
  const change = (field: string, text: string) => setTexts({ ...texts, [field]: text });
  const send = (event: Event) => {
    event.preventDefault();
    const body = bodyFrom(kind, item, name.trim(), texts);
    action.run(() => call(`${kind.path}/${encodeURIComponent(name.trim())}`, { method: "PUT", body }));
  };
  return (
    <form class="new" onSubmit={send}>
      <h2>{item ? `Change ${nounOf(kind)} ${name}` : `New ${nounOf(kind)}`}</h2>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      <div class="fields">
        <label>Name<input value={name} disabled={item !== null} spellcheck={false} onInput={(event) => setName(event.currentTarget.value)} /></label>
        {kind.fields.map((field) => (
          <label key={field.name}>
            {field.label}
            {field.kind === "choice" || field.kind === "flag" ? (
              <select value={texts[field.name] || (field.choices ?? ["yes"])[0]} onChange={(event) => change(field.name, event.currentTarget.value)}>
                {(field.choices ?? ["yes", "no"]).map((choice) => <option key={choice} value={choice}>{choice}</option>)}
              </select>
            ) : (
              <input
                value={texts[field.name] ?? ""} spellcheck={false} placeholder={field.kind === "slots" ? "cpu=64, mem=64GiB" : field.kind === "words" ? "separated by commas" : ""}
                onInput={(event) => change(field.name, event.currentTarget.value)}
              />
            )}
          </label>
        ))}
      </div>
      {kind.partly ? <p class="muted">More options: <code>sokovan {kind.noun} set --help</code></p> : null}
      <div class="actions">
        <button type="submit" class="primary" disabled={action.busy || !name.trim()}>{item ? "Change" : "Create"}</button>
        {item && kind.path === "queues" ? <a href={`/ui/what-if?weight=${encodeURIComponent(`${name}=${texts["weight"] ?? ""}`)}`}>What would this weight do?</a> : null}
        {item ? <button type="button" onClick={() => setQuery({ edit: "" })}>Back</button> : null}
      </div>
    </form>
  );
}

function Keys() {
  const found = useResource<KeyView[]>("keys", (signal) => all("keys", signal), untoldTick.value);
  const [user, setUser] = useState(me.value?.user ?? "");
  const [made, setMade] = useState<NewKeyView | null>(null);
  const [removing, setRemoving] = useState("");
  const action = useAction(found.retry);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  const create = (event: Event) => {
    event.preventDefault();
    action.run(async () => setMade(await call<NewKeyView>("keys", { method: "POST", body: { user: user.trim() } })));
  };
  const revoke = () => {
    setRemoving("");
    action.run(() => call(`keys/${encodeURIComponent(removing)}`, { method: "DELETE" }));
  };
  return (
    <>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      {made ? (
        <div class="notice" role="status">
          <p>The new key of {made.user}. It is shown only now:</p>
          <CopyCommand command={made.token} />
        </div>
      ) : null}
      <div class="table-box" tabIndex={0} role="region" aria-label="Keys">
        <table>
          <thead><tr><th>Key</th><th>User</th><th>Quota</th><th>State</th><th>Action</th></tr></thead>
          <tbody>
            {found.value.map((key) => (
              <tr key={key.access_key}>
                <th scope="row"><code>{key.access_key}</code></th>
                <td>{key.user}</td>
                <td>{key.policy ?? "–"}</td>
                <td>{key.access_key === me.value?.access_key ? "active (this login)" : key.active ? "active" : "revoked"}</td>
                <td>{key.active ? <button type="button" class="danger" onClick={() => setRemoving(key.access_key)}>Revoke</button> : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <form class="actions" onSubmit={create}>
        <label>User <input value={user} spellcheck={false} onInput={(event) => setUser(event.currentTarget.value)} /></label>
        <button type="submit" class="primary" disabled={action.busy || !user.trim()}>New key</button>
        <CopyCommand command={"sokovan key ls"} />
      </form>
      {removing ? <Confirm title={`Revoke key ${removing}? Its logins end as well.`} action="Revoke" command={shellWords(["sokovan", "key", "rm", removing])} onYes={revoke} onNo={() => setRemoving("")} /> : null}
    </>
  );
}

function Logins() {
  const found = useResource<LoginView[]>("logins", (signal) => all("logins", signal), untoldTick.value);
  const action = useAction(found.retry);
  if (found.problem && !found.value) return <ProblemBox problem={found.problem} retry={found.retry} />;
  if (!found.value) return <Skeleton lines={8} />;
  return (
    <>
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      <div class="table-box" tabIndex={0} role="region" aria-label="Logins">
        <table>
          <thead><tr><th>Login</th><th>User</th><th>Key</th><th>From</th><th class="right">Began</th><th class="right">Used</th><th>Action</th></tr></thead>
          <tbody>
            {found.value.map((login) => (
              <tr key={login.id}>
                <th scope="row"><code>{login.id}</code>{login.current ? " (this browser)" : ""}</th>
                <td>{login.user}</td>
                <td><code>{login.access_key}</code></td>
                <td>{login.address}</td>
                <td class="right"><Age at={login.created_at} /> ago</td>
                <td class="right"><Age at={login.used_at} /> ago</td>
                <td>{login.current ? "–" : <button type="button" class="danger" disabled={action.busy} onClick={() => action.run(() => call(`logins/${encodeURIComponent(login.id)}`, { method: "DELETE" }))}>End</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="actions"><CopyCommand command="sokovan login ls" /></div>
    </>
  );
}
