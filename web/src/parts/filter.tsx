// A field that filters by a part of the address: on Enter, or when it is left. What is typed stays while the page is read again.
import { useState } from "preact/hooks";
import { query, setQuery } from "../router.ts";

export function FilterInput({ name, placeholder = "" }: { name: string; placeholder?: string }) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      value={typed ?? query.value.get(name) ?? ""}
      spellcheck={false}
      placeholder={placeholder}
      onInput={(event) => setTyped(event.currentTarget.value)}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim(), cursor: "" })}
      onBlur={() => setTyped(null)}
    />
  );
}
