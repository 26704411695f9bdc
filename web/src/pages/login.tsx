// The page that asks for a key.
import { useState } from "preact/hooks";
import type { ProblemView } from "../wire.ts";
import { logIn } from "../login.ts";
import { CopyCommand, ProblemBox } from "../parts/basics.tsx";

export function LoginPage({ problem: before }: { problem: ProblemView | null }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(before);
  const send = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    void logIn("Bearer", key.trim()).then((found) => {
      setProblem(found);
      setBusy(false);
    });
  };
  return (
    <main class="login">
      <h1>Sokovan</h1>
      <p>Open the dashboard from a terminal, which logs this browser in:</p>
      <CopyCommand command="sokovan dashboard" />
      <form onSubmit={send}>
        <label for="key">Or enter an API key</label>
        <input
          id="key" type="password" autoComplete="off" spellcheck={false} value={key} placeholder="sk-…"
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={busy || !key.trim()}>Log in</button>
      </form>
      {problem ? <ProblemBox problem={problem} /> : null}
    </main>
  );
}
