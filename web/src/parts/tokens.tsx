// Keys for clients of a deployment: create, list, revoke, and how to ask with one.
import { useState } from "preact/hooks";
import { all, call } from "../api.ts";
import { unfinishedNumber } from "../draft.ts";
import { printable, shellWords } from "../format.ts";
import { now } from "../live/store.ts";
import { curlLine, openAiText } from "../snippets.ts";
import { useAction } from "./action.ts";
import { Age, Confirm, CopyCommand, ProblemBox, Skeleton } from "./basics.tsx";
import { useResource } from "./resource.ts";
import type { DeploymentView, EndpointTokenBody, EndpointTokenView, NewEndpointTokenView } from "../wire.ts";

export function Tokens({ view, path }: { view: DeploymentView; path: string }) {
  const found = useResource<EndpointTokenView[]>(`tokens ${path}`, (signal) => all(`${path}/tokens`, signal));
  const [name, setName] = useState("");
  const [rate, setRate] = useState("");
  const [made, setMade] = useState<NewEndpointTokenView | null>(null);
  const [revoking, setRevoking] = useState<EndpointTokenView | null>(null);
  const action = useAction(found.retry);
  const typing = unfinishedNumber("Requests per minute", rate, 1);
  const create = (event: Event) => {
    event.preventDefault();
    const body: EndpointTokenBody = { name: name.trim(), requests_per_minute: rate.trim() ? Number(rate) : null };
    action.run(async () => {
      setMade(await call<NewEndpointTokenView>(`${path}/tokens`, { method: "POST", body }));
      setName("");
    });
  };
  const revoke = (token: EndpointTokenView) => {
    setRevoking(null);
    if (made?.id === token.id) setMade(null);
    action.run(() => call(`${path}/tokens/${encodeURIComponent(token.id)}`, { method: "DELETE" }));
  };
  const line = ["sokovan", "token", "create", view.name, ...(name.trim() ? ["--name", name.trim()] : []), ...(rate.trim() ? ["--requests-per-minute", rate.trim()] : [])];
  return (
    <section class="panel tokens" aria-label="keys for clients">
      {found.problem ? <ProblemBox problem={found.problem} retry={found.retry} /> : null}
      {action.problem ? <ProblemBox problem={action.problem} /> : null}
      {made ? (
        <div class="notice" role="status">
          <p>The new key. It is shown only now:</p>
          <CopyCommand command={made.token} />
        </div>
      ) : null}
      {found.value?.length ? <TokenTable tokens={found.value} revoke={setRevoking} /> : found.value ? <p class="muted">Clients have no key yet.</p> : found.problem ? null : <Skeleton lines={2} />}
      <form class="actions" onSubmit={create}>
        <label>Name <input value={name} spellcheck={false} placeholder="ci" onInput={(event) => setName(event.currentTarget.value)} /></label>
        <label>Requests per minute <input class="short" inputMode="numeric" value={rate} placeholder="any" onInput={(event) => setRate(event.currentTarget.value)} /></label>
        <button type="submit" disabled={action.busy || Boolean(typing)}>New key</button>
        {typing ? null : <CopyCommand command={shellWords(line)} />}
      </form>
      {typing ? <p class="muted" role="status">{typing}</p> : null}
      {view.url ? <Asking url={view.url} model={view.models[0] ?? view.name} token={made?.token ?? ""} /> : null}
      {revoking ? (
        <Confirm
          title={`Revoke the key ${revoking.name || revoking.id}? Requests with it are refused.`} action="Revoke"
          command={shellWords(["sokovan", "token", "revoke", view.name, revoking.id])} onYes={() => revoke(revoking)} onNo={() => setRevoking(null)}
        />
      ) : null}
    </section>
  );
}

function TokenTable({ tokens, revoke }: { tokens: readonly EndpointTokenView[]; revoke: (token: EndpointTokenView) => void }) {
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="keys">
      <table>
        <thead><tr><th>Key</th><th>Name</th><th>Models</th><th>Limits</th><th class="right">Used this month</th><th>Expires</th><th class="right">Age</th><th>Action</th></tr></thead>
        <tbody>
          {tokens.map((one) => (
            <tr key={one.id}>
              <th scope="row"><code>{one.id}</code></th>
              <td>{printable(one.name) || "–"}</td>
              <td>{one.models.join(", ") || "all"}</td>
              <td>{limitsOf(one) || "–"}</td>
              <td class="right">{one.tokens_used}</td>
              <td>{one.expires_at ? (Date.parse(one.expires_at) < now.value ? "expired" : one.expires_at) : "–"}</td>
              <td class="right"><Age at={one.created_at} /></td>
              <td><button type="button" class="danger" onClick={() => revoke(one)}>Revoke</button></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function limitsOf(token: EndpointTokenView): string {
  const limits = [
    [token.requests_per_minute, "requests/min"], [token.tokens_per_minute, "tokens/min"], [token.concurrency, "at once"], [token.tokens_per_month, "tokens/month"],
  ] as const;
  return limits.filter(([value]) => value !== null).map(([value, words]) => `${value} ${words}`).join(", ");
}

/** The same request by curl and by the OpenAI client. */
function Asking({ url, model, token }: { url: string; model: string; token: string }) {
  return (
    <>
      <p class="muted">Ask it with a key{token ? "" : ", here from the variable KEY"}:</p>
      <CopyCommand command={curlLine(url, model, token)} />
      <details>
        <summary>With the OpenAI client</summary>
        <pre tabIndex={0} aria-label="python">{openAiText(url, model, token)}</pre>
      </details>
    </>
  );
}
