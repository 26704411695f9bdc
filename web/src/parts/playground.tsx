// A chat with a deployment. Answers are shown as text, whatever they contain.
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem, streamed } from "../api.ts";
import { printable, shellWords } from "../format.ts";
import { CopyCommand, ProblemBox } from "./basics.tsx";
import type { ChatMessage, ChatPart, DeploymentView, ProblemView } from "../wire.ts";

const SHOWN_MAX = 100_000;
const MESSAGES_MAX = 200;

export function Playground({ view, path }: { view: DeploymentView; path: string }) {
  const [messages, setMessages] = useState<ChatMessage[]>([]);
  const [question, setQuestion] = useState("");
  const [model, setModel] = useState(view.models[0] ?? "");
  const [answering, setAnswering] = useState(false);
  const [problem, setProblem] = useState<ProblemView | null>(null);
  const running = useRef<AbortController | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [messages]);
  const ask = async (): Promise<void> => {
    const asked: ChatMessage[] = [...messages, { role: "user", content: question } as const].slice(-MESSAGES_MAX);
    const stopped = new AbortController();
    running.current = stopped;
    let answer = "";
    setQuestion("");
    setProblem(null);
    setAnswering(true);
    setMessages(asked);
    try {
      await streamed<ChatPart>(`${path}/chat`, { messages: asked, model }, stopped.signal, (part) => {
        answer = (answer + part.text).slice(0, SHOWN_MAX);
        setMessages([...asked, { role: "assistant", content: answer }]);
      });
    } catch (error) {
      if (!stopped.signal.aborted && error instanceof Problem) setProblem(error.view);
      else if (!stopped.signal.aborted) throw error;
    }
    // A question without an answer can be asked again.
    if (!answer && !stopped.signal.aborted) {
      setMessages(messages);
      setQuestion(question);
    }
    setAnswering(false);
  };
  const send = (event: Event) => {
    event.preventDefault();
    if (question.trim() && !answering) void ask();
  };
  return (
    <section class="playground panel" aria-label="playground">
      {messages.length ? (
        <div class="messages" ref={box} tabIndex={0} role="log" aria-label="chat">
          {messages.map((one, index) => (
            <div key={index} class={`message ${one.role}`}>
              <span class="muted">{one.role === "user" ? "you" : view.name}</span>
              <p>{printable(one.content)}{answering && index === messages.length - 1 && one.role === "assistant" ? <span class="muted" aria-hidden="true"> ▍</span> : null}</p>
            </div>
          ))}
        </div>
      ) : null}
      {problem ? <ProblemBox problem={problem} /> : null}
      <form class="ask" onSubmit={send}>
        <textarea
          aria-label="question" placeholder="ask the model; Enter sends, Shift-Enter begins a line" rows={2} value={question}
          onInput={(event) => setQuestion(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && send(event)}
        />
        {view.models.length > 1 ? (
          <label>model <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>{view.models.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
        ) : null}
        {answering ? <button type="button" onClick={() => running.current?.abort()}>Stop answering</button> : <button type="submit" class="primary" disabled={!question.trim()}>Ask</button>}
        {messages.length && !answering ? <button type="button" onClick={() => setMessages([])}>Begin anew</button> : null}
      </form>
      <CopyCommand command={shellWords(["sokovan", "chat", view.name, question.trim() || "hello"])} />
    </section>
  );
}
