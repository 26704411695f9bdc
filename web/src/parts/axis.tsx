// The times above bars: as many as there is room for, and where now is.
import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../live/store.ts";
import { marksOf, sidesOf } from "../timeline.ts";
import { markText } from "../window.ts";

// Pixels that a text such as 18:00 takes, with the space around it.
const ROOM = 48;
const MARKS_MAX = 8;

export function TimeAxis({ from, to }: { from: number; to: number }) {
  const axis = useRef<HTMLSpanElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = axis.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const place = (at: number) => `${((at - from) / (to - from)) * 100}%`;
  const marks = marksOf(from, to, Math.min(MARKS_MAX, Math.max(1, Math.round(width / ROOM))), -new Date(to).getTimezoneOffset() * 60_000);
  const sides = sidesOf(marks, from, to, now.value, ((to - from) * ROOM) / Math.max(1, width));
  return (
    <span class="gantt-axis" role="columnheader" aria-label="time" ref={axis}>
      {marks.map((at, index) => <span key={at} class={`gantt-mark ${sides[index]}`} style={{ left: place(at) }}>{sides[index] === "none" ? "" : markText(at, to - from)}</span>)}
      {now.value >= from && now.value <= to ? <span class="gantt-now" title="now" style={{ left: place(now.value) }} /> : null}
    </span>
  );
}
