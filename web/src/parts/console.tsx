// A shell in a kernel: lines go in, output comes out as text. It has no terminal, so it draws nothing.
import { useEffect, useRef, useState } from "preact/hooks";
import { printable, shellWords } from "../format.ts";
import { proof } from "../login.ts";
import { CopyCommand } from "./basics.tsx";

const SHOWN_MAX = 200_000;

interface ConsoleProps {
  session: string;
  name: string;
  kernel: number;
}

interface Last {
  exit_code?: number;
  detail?: string;
}

export function Console({ session, name, kernel }: ConsoleProps) {
  const [text, setText] = useState("");
  const [line, setLine] = useState("");
  const [open, setOpen] = useState(false);
  const socket = useRef<WebSocket | null>(null);
  const past = useRef<string[]>([]);
  const place = useRef(0);
  const box = useRef<HTMLPreElement>(null);
  const add = (more: string) => setText((before) => (before + more).slice(-SHOWN_MAX));
  useEffect(() => () => socket.current?.close(), [session, kernel]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const start = () => {
    const address = `${location.origin.replace(/^http/, "ws")}/api/v1/sessions/${encodeURIComponent(session)}/kernels/${kernel}/exec`;
    // A page cannot set headers here: the proof is one of the offered protocols.
    const made = new WebSocket(address, ["sokovan-exec", `sokovan-proof.${proof.value}`]);
    const decoder = new TextDecoder();
    let last = "";
    made.binaryType = "arraybuffer";
    made.onopen = () => {
      made.send(JSON.stringify({ command: ["sh"], terminal: false }));
      setOpen(true);
    };
    made.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (typeof event.data === "string") {
        const told = JSON.parse(event.data) as Last;
        last = told.exit_code === undefined ? (told.detail ?? "") : `the shell ended with ${told.exit_code}`;
      } else add(printable(decoder.decode(event.data, { stream: true })));
    };
    made.onclose = () => {
      if (socket.current !== made) return;
      socket.current = null;
      setOpen(false);
      add(`(${last || "not connected"})\n`);
    };
    socket.current = made;
  };
  const send = (event: Event) => {
    event.preventDefault();
    if (!open || !line) return;
    past.current = [...past.current, line].slice(-100);
    place.current = past.current.length;
    add(`$ ${printable(line)}\n`);
    socket.current?.send(new TextEncoder().encode(`${line}\n`));
    setLine("");
  };
  const recall = (event: KeyboardEvent) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    place.current = Math.min(past.current.length, Math.max(0, place.current + (event.key === "ArrowUp" ? -1 : 1)));
    setLine(past.current[place.current] ?? "");
  };
  return (
    <section class="log" aria-label="console">
      <div class="bar">
        {open ? <button type="button" onClick={() => socket.current?.close()}>Close</button> : <button type="button" onClick={start}>Open a shell in kernel {kernel}</button>}
        <span class="muted">{open ? "lines only; for a full terminal use" : "or in a terminal:"}</span>
        <CopyCommand command={shellWords(["sokovan", "exec", "-it", name, ...(kernel ? ["--kernel", String(kernel)] : []), "--", "bash"])} />
      </div>
      {open || text ? <pre ref={box} tabIndex={0} aria-label="output of the shell">{text}</pre> : null}
      {open ? (
        <form class="prompt" onSubmit={send}>
          <span aria-hidden="true">$</span>
          <input
            aria-label="command for the shell" value={line} autoComplete="off" autoCapitalize="off" spellcheck={false}
            onInput={(event) => setLine(event.currentTarget.value)} onKeyDown={recall}
          />
        </form>
      ) : null}
    </section>
  );
}
