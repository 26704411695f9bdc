// The shell: login, navigation, keys that work everywhere, and the page of the address.
import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "./api.ts";
import { duration } from "./format.ts";
import { connect, disconnect, heardAt, lineUp, now, refresh } from "./live/store.ts";
import { leave, logIn, loginId, proof, takeCode } from "./login.ts";
import { LoginPage } from "./pages/login.tsx";
import { Skeleton } from "./parts/basics.tsx";
import { Opened, expect } from "./opened.tsx";
import { isTyping } from "./parts/keys.ts";
import { Palette } from "./parts/palette.tsx";
import { followLinks, go, href, path } from "./router.ts";
import { me } from "./session.ts";
import type { ProblemView, WhoamiView } from "./wire.ts";

const PAGES = [
  ["/", "Overview", "o"],
  ["/sessions", "Sessions", "s"],
  ["/new", "New session", "n"],
  ["/cluster", "Cluster", "c"],
  ["/queues", "Queues", "q"],
  ["/deployments", "Deployments", "d"],
  ["/timeline", "Timeline", "t"],
  ["/bookings", "Bookings", "b"],
  ["/history", "History", "h"],
  ["/what-if", "What if", "w"],
  ["/admin", "Administration", "a"],
] as const;
const TARGETS = PAGES.map(([to, name]) => ({ kind: "page", name, to }));
const THEME = "sokovan-theme";

const entering = signal(true);
const refused = signal<ProblemView | null>(null);

/** The address without the slash at its end. */
function address(): string {
  return path.value.replace(/\/$/, "") || "/";
}

function Page() {
  const here = address();
  useEffect(() => {
    document.title = `${here === "/" ? "Overview" : here.slice(1)} · Sokovan`;
  }, [here]);
  return <Opened here={here} />;
}

function LineState() {
  const since = (now.value - heardAt.value) / 1000;
  if (lineUp.value) return <span class="line"><span class="mark" aria-hidden="true">●</span> live</span>;
  return (
    <button type="button" class="line down" onClick={refresh} title="Read again now">
      <span class="mark" aria-hidden="true">○</span> as of {duration(since)} ago
    </button>
  );
}

function setTheme(theme: string): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  localStorage.setItem(THEME, theme);
}

async function logOut(): Promise<void> {
  await call(`logins/${encodeURIComponent(loginId.value)}`, { method: "DELETE" }).catch(() => undefined);
  disconnect();
  leave();
}

function Shell() {
  const [help, setHelp] = useState(false);
  const [jumping, setJumping] = useState(false);
  const [theme, chooseTheme] = useState(localStorage.getItem(THEME) ?? "auto");
  useEffect(() => {
    let going = 0;
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "k") {
        event.preventDefault();
        setJumping(true);
        return;
      }
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setHelp((shown) => !shown);
      if (event.key === "Escape") setHelp(false);
      if (Date.now() - going < 1000) {
        const to = PAGES.find(([, , key]) => key === event.key);
        if (to) go(to[0]);
      }
      going = event.key === "g" ? Date.now() : 0;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const here = path.value;
  const who = me.value ? `${me.value.user} (${me.value.role})` : "";
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the list of pages is scrolled so that the current one is seen.
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && current) nav.current.scrollLeft = current.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - current.offsetWidth) / 2;
  }, [here]);
  return (
    <div class="shell">
      <a class="skip" href="#content">Skip to the content</a>
      <header>
        <a class="brand" href={href("/")}>Sokovan</a>
        <nav aria-label="pages" ref={nav}>
          {PAGES.map(([to, name]) => {
            const current = to === "/" ? here === "/" : here === to || here.startsWith(`${to}/`);
            return <a key={to} href={href(to)} aria-current={current ? "page" : undefined}>{name}</a>;
          })}
        </nav>
        <span class="spring" />
        <button type="button" onClick={() => setJumping(true)} title="Go to a page, session, agent or deployment">Go to <kbd>Ctrl K</kbd></button>
        <LineState />
        <select
          aria-label="theme" value={theme}
          onChange={(event) => {
            chooseTheme(event.currentTarget.value);
            setTheme(event.currentTarget.value);
          }}
        >
          <option value="auto">system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
        <span class="who" title={who}>{who}</span>
        <button type="button" onClick={() => void logOut()}>Log out</button>
      </header>
      <main id="content" tabIndex={-1}>
        <Page />
      </main>
      {help ? <Help /> : null}
      {jumping ? <Palette pages={TARGETS} onClose={() => setJumping(false)} /> : null}
    </div>
  );
}

function Help() {
  const keys = [
    ["/", "filter"], ["j k", "next, previous"], ["x", "choose"], ["Enter", "open"], ["Esc", "close"], ["Ctrl K", "go to"],
    ["arrows", "move on the map"], ["+ -", "zoom the map"],
    ...PAGES.map(([, name, key]) => [`g ${key}`, name]), ["?", "this list"],
  ];
  return (
    <aside class="help" aria-label="keys">
      <h2>Keys</h2>
      <dl class="facts">{keys.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
    </aside>
  );
}

function App() {
  if (entering.value) return <Skeleton lines={3} />;
  return proof.value ? <Shell /> : <LoginPage problem={refused.value} />;
}

async function enter(): Promise<void> {
  const code = takeCode();
  if (code) refused.value = await logIn("Login-Code", code);
  entering.value = false;
}

effect(() => {
  if (!proof.value || entering.value) return;
  connect();
  call<WhoamiView>("whoami").then((view) => (me.value = view), () => undefined);
});
// Its files are read while the login is checked.
expect(address());
setTheme(localStorage.getItem(THEME) ?? "auto");
addEventListener("click", followLinks);
const root = document.getElementById("app");
if (root) render(<App />, root);
void enter();
