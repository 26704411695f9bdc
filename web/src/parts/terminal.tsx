// A terminal in a kernel: the socket, the keys and the size are the browser's part, everything else is pure.
import { Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { shellWords } from "../format.ts";
import { proof } from "../login.ts";
import { href } from "../router.ts";
import { bytesOf, pasted } from "../terminal/keys.ts";
import type { Line } from "../terminal/lines.ts";
import type { Screen } from "../terminal/screen.ts";
import { cssColour, DEFAULT, SIDE_MAX, type Style, type StyleTable } from "../terminal/style.ts";
import { CopyCommand } from "./basics.tsx";

const PIECE = 65_536;
// Whichever shell the image has; programs are told what this terminal understands.
const SHELL = ["/bin/sh", "-c", "export TERM=xterm-256color; command -v bash >/dev/null 2>&1 && exec bash; exec sh"];

type Emulator = typeof import("../terminal/screen.ts");
let emulator: Promise<Emulator> | null = null;

/** A file of its own, read when the first terminal is opened. */
function loadedEmulator(): Promise<Emulator> {
  const named = document.querySelector<HTMLScriptElement>("script[data-screen]")?.dataset["screen"] ?? "";
  emulator ??= (import(named) as Promise<Emulator>).catch((error: unknown) => {
    emulator = null;
    throw error;
  });
  return emulator;
}

interface TerminalProps {
  session: string;
  name: string;
  kernel: number;
  /** Open it at once, as high as the page. */
  whole?: boolean;
}

interface Last {
  exit_code?: number;
  detail?: string;
}

type Phase = "closed" | "opening" | "open";

export function Terminal({ session, name, kernel, whole = false }: TerminalProps) {
  const [phase, setPhase] = useState<Phase>("closed");
  const [note, setNote] = useState("");
  const [frame, setFrame] = useState(0);
  const socket = useRef<WebSocket | null>(null);
  const screen = useRef<Screen | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const closer = useRef<HTMLButtonElement>(null);
  const painting = useRef(false);
  const made = useRef<Emulator | null>(null);
  const isGone = useRef(false);
  const paint = () => {
    if (painting.current) return;
    painting.current = true;
    requestAnimationFrame(() => {
      painting.current = false;
      setFrame((before) => before + 1);
    });
  };
  const send = (text: string) => {
    if (!text || socket.current?.readyState !== WebSocket.OPEN) return;
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; at += PIECE) socket.current.send(bytes.subarray(at, at + PIECE));
  };
  const start = () => {
    setPhase("opening");
    setNote("");
    const failed = () => {
      setPhase("closed");
      setNote("The terminal could not be read; the server may not answer.");
    };
    loadedEmulator().then((found) => {
      made.current = found;
      if (!isGone.current) connect();
    }, failed);
  };
  const connect = () => {
    const address = `${location.origin.replace(/^http/, "ws")}/api/v1/sessions/${encodeURIComponent(session)}/kernels/${kernel}/exec`;
    // A page cannot set headers here: the proof is one of the offered protocols.
    const opened = new WebSocket(address, ["sokovan-exec", `sokovan-proof.${proof.value}`]);
    const decoder = new TextDecoder();
    let last = "";
    opened.binaryType = "arraybuffer";
    opened.onopen = () => setPhase("open");
    opened.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      if (typeof event.data === "string") {
        const told = JSON.parse(event.data) as Last;
        last = told.exit_code === undefined ? (told.detail ?? "") : `The shell ended with ${told.exit_code}.`;
      } else {
        send(screen.current?.write(decoder.decode(event.data, { stream: true })) ?? "");
        paint();
      }
    };
    opened.onclose = () => {
      if (socket.current !== opened) return;
      socket.current = null;
      setPhase("closed");
      setNote(last || "The connection was closed.");
    };
    socket.current = opened;
  };
  const end = () => {
    socket.current?.close();
  };
  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
      const open = socket.current;
      socket.current = null;
      open?.close();
    };
  }, [session, kernel]);
  useEffect(() => {
    if (whole) start();
  }, []);
  // The size is known once the box is shown; then the shell is started in a terminal of that size.
  useEffect(() => {
    const element = box.current;
    if (phase !== "open" || !element || !made.current) return;
    const [rows, columns] = sizeOf(element);
    screen.current = new made.current.Screen(rows, columns);
    socket.current?.send(JSON.stringify({ command: SHELL, terminal: true, rows, columns }));
    paint();
    field.current?.focus();
    const watch = new ResizeObserver(() => {
      const [high, wide] = sizeOf(element);
      const shown = screen.current;
      if (!shown || (shown.rows === high && shown.columns === wide)) return;
      shown.resize(high, wide);
      if (socket.current?.readyState === WebSocket.OPEN) socket.current.send(JSON.stringify({ resize: [high, wide] }));
      paint();
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [phase === "open"]);
  useEffect(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [frame]);
  const press = (event: KeyboardEvent) => {
    // Keys of the page are not for what is typed here.
    event.stopPropagation();
    if (event.isComposing) return;
    if (event.ctrlKey && event.shiftKey && event.code === "Period") {
      event.preventDefault();
      closer.current?.focus();
      return;
    }
    const bytes = bytesOf(event, screen.current?.arrowsAsApplication ?? false);
    if (bytes === null) return;
    event.preventDefault();
    send(bytes);
  };
  const take = (element: HTMLTextAreaElement) => {
    send(element.value.replaceAll("\n", "\r"));
    element.value = "";
  };
  const paste = (event: ClipboardEvent) => {
    event.preventDefault();
    send(pasted(event.clipboardData?.getData("text/plain") ?? "", screen.current?.pasteIsMarked ?? false));
  };
  const shown = screen.current;
  const past = shown && !shown.isFull ? shown.past : [];
  return (
    <section class={`terminal${whole ? " whole" : ""}`} aria-label="terminal">
      <div class="bar">
        {phase === "closed" ? (
          <button type="button" onClick={start}>Open a terminal in kernel {kernel}</button>
        ) : (
          <button type="button" ref={closer} onClick={end}>Close the terminal</button>
        )}
        {whole ? null : <a href={href(`/sessions/${encodeURIComponent(session)}/terminal${kernel ? `?kernel=${kernel}` : ""}`)}>as large as the window</a>}
        {phase === "open" ? <span class="muted"><kbd>Ctrl Shift .</kbd> leaves it</span> : null}
        <span role="status">{phase === "opening" ? "connecting" : note}</span>
        <span class="spring" />
        <CopyCommand command={shellWords(["sokovan", "exec", "-it", name, ...(kernel ? ["--kernel", String(kernel)] : []), "--", "bash"])} />
      </div>
      {phase === "open" || shown ? (
        <div class="terminal-box" ref={box} onClick={() => getSelection()?.isCollapsed !== false && field.current?.focus()}>
          <span class="terminal-measure" aria-hidden="true">{"0".repeat(50)}</span>
          <div class="terminal-screen" role="log" aria-label="screen of the terminal">
            {shown ? [...past, ...shown.lines].map((line, index) => (
              <Row
                key={line.id} line={line} version={line.version} styles={shown.styles}
                cursor={phase === "open" && shown.cursorShown && index === past.length + shown.row ? shown.column : -1}
              />
            )) : null}
          </div>
          {phase === "open" ? (
            <textarea
              ref={field} class="terminal-field" aria-label="input of the terminal" rows={1} autoComplete="off" autoCapitalize="off"
              spellcheck={false} onKeyDown={press} onPaste={paste}
              onInput={(event) => !(event as InputEvent).isComposing && take(event.currentTarget)}
              onCompositionEnd={(event) => take(event.currentTarget)}
            />
          ) : null}
        </div>
      ) : null}
    </section>
  );
}

/** Rows and columns that fit. */
function sizeOf(box: HTMLDivElement): [number, number] {
  const measure = box.querySelector(".terminal-measure")?.getBoundingClientRect();
  if (!measure || !measure.width || !measure.height) return [24, 80];
  const style = getComputedStyle(box);
  const inner = (size: number, first: string, second: string) => size - parseFloat(first) - parseFloat(second);
  const rows = inner(box.clientHeight, style.paddingTop, style.paddingBottom) / measure.height;
  const columns = inner(box.clientWidth, style.paddingLeft, style.paddingRight) / (measure.width / 50);
  const bounded = (count: number, least: number) => Math.min(SIDE_MAX, Math.max(least, Math.floor(count)));
  return [bounded(rows, 2), bounded(columns, 10)];
}

interface RowProps {
  line: Line;
  version: number;
  styles: StyleTable;
  cursor: number;
}

/** A line is drawn again only if it has changed. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const { line, version, cursor } = this.props;
    return next.line !== line || next.version !== version || next.cursor !== cursor;
  }

  override render() {
    const { line, styles, cursor } = this.props;
    const runs = line.runs(cursor);
    const last = runs.at(-1);
    if (last && last.style === 0 && last.column !== cursor) last.text = last.text.trimEnd();
    return (
      <div class="terminal-row">
        {runs.map((run) => {
          const style = styles.at(run.style);
          return (
            <span key={run.column} class={classOf(style, run.wide, run.column === cursor)} style={coloursOf(style)}>{style.hidden ? " ".repeat(run.text.length) : run.text}</span>
          );
        })}
      </div>
    );
  }
}

function classOf(style: Style, wide: boolean, isCursor: boolean): string {
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  const names = [
    style.bold ? "bold" : "", style.dim ? "dim" : "", style.italic ? "italic" : "", style.underline ? "underline" : "",
    style.strike ? "strike" : "", wide ? "wide" : "", isCursor ? "cursor" : "",
    fg === DEFAULT ? (style.inverse ? "fi" : "") : fg < 16 ? `f${fg}${fg === 0 && bg === DEFAULT ? "d" : ""}` : "",
    bg === DEFAULT ? (style.inverse ? "bi" : "") : bg < 16 ? `b${bg}` : "",
  ];
  return names.filter(Boolean).join(" ");
}

function coloursOf(style: Style): Record<string, string> {
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  return { ...(fg >= 16 ? { color: cssColour(fg) } : {}), ...(bg >= 16 ? { backgroundColor: cssColour(bg) } : {}) };
}
