// How clients ask a deployment, to copy. Pure.
import { shellWords } from "./format.ts";

/** A request by curl; without a key it is read from the variable KEY. */
export function curlLine(url: string, model: string, token = ""): string {
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "hello" }] });
  const bearer = token ? shellWords([`Authorization: Bearer ${token}`]) : '"Authorization: Bearer $KEY"';
  return `${shellWords(["curl", "-s", `${url.replace(/\/$/, "")}/chat/completions`])} -H ${bearer} ${shellWords(["-H", "Content-Type: application/json", "-d", body])}`;
}

/** A request by the OpenAI client in Python. */
export function openAiText(url: string, model: string, token = ""): string {
  const key = token ? JSON.stringify(token) : 'os.environ["KEY"]';
  return [
    ...(token ? [] : ["import os"]),
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${JSON.stringify(url)}, api_key=${key})`,
    `answer = client.chat.completions.create(model=${JSON.stringify(model)}, messages=[{"role": "user", "content": "hello"}])`,
    "print(answer.choices[0].message.content)",
  ].join("\n");
}
