// A part of a page whose file is read when it is shown.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Skeleton } from "./basics.tsx";

export function later<P extends object>(read: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let known: FunctionComponent<P> | null = null;
  return function Later(props: P) {
    const [state, setState] = useState<"reading" | "failed" | "read">(known ? "read" : "reading");
    useEffect(() => {
      let left = false;
      if (!known) {
        read().then(
          (part) => {
            known = part;
            if (!left) setState("read");
          },
          () => left || setState("failed"),
        );
      }
      return () => {
        left = true;
      };
    }, []);
    if (state === "failed") return <p class="muted" role="alert">The files of this part cannot be read; load the page again.</p>;
    const Part = known;
    return Part ? <Part {...props} /> : <Skeleton lines={4} />;
  };
}
