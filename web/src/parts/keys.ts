// Keys of pages: single letters while no field is typed in.
import { useEffect } from "preact/hooks";

export type Keys = Record<string, () => void>;

export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target !== null && (target as HTMLInputElement).type !== "checkbox" && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable);
}

export function useKeys(keys: Keys): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (isTyping(event) && event.key !== "Escape") return;
      // Enter on a button or a link is the button's.
      const target = event.target as HTMLElement | null;
      if (event.key === "Enter" && target && /^(BUTTON|A)$/.test(target.tagName)) return;
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
