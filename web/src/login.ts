// The two halves of a login: the cookie, which no script can read, and the proof, which is kept here.
import { signal } from "@preact/signals";
import type { NewLoginView, ProblemView } from "./wire.ts";

const KEPT = "sokovan-proof";
const KEPT_ID = "sokovan-login";

export const proof = signal(localStorage.getItem(KEPT) ?? "");
export const loginId = signal(localStorage.getItem(KEPT_ID) ?? "");

/** Forget the login of this browser. */
export function leave(): void {
  localStorage.removeItem(KEPT);
  localStorage.removeItem(KEPT_ID);
  proof.value = "";
  loginId.value = "";
}

/** Log in with a key (`Bearer`) or a code (`Login-Code`); the problem if that fails. */
export async function logIn(scheme: "Bearer" | "Login-Code", secret: string): Promise<ProblemView | null> {
  const answer = await fetch("/api/v1/logins", {
    method: "POST",
    headers: { Authorization: `${scheme} ${secret}` },
  });
  if (!answer.ok) return (await answer.json()) as ProblemView;
  const login = (await answer.json()) as NewLoginView;
  localStorage.setItem(KEPT, login.proof);
  localStorage.setItem(KEPT_ID, login.id);
  loginId.value = login.id;
  proof.value = login.proof;
  return null;
}

/** The code in the address, which is erased from it and from the history. */
export function takeCode(): string {
  const code = new URLSearchParams(location.hash.slice(1)).get("code") ?? "";
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}
