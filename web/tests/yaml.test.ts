import assert from "node:assert/strict";
import { test } from "node:test";
import { readYaml, writeYaml, YamlProblem, type Yaml } from "../src/yaml.ts";

const SESSION = `---
# A gang.
name: ddp          # its name
size: 4
command: [torchrun, "train.py", --lr=0.1, 'it''s']
resources: {cpu: 2, mem: 4GiB, cuda.device: 8}
where:
- nvme exists
- "zone in (a, b)"
environment:
  URL: http://host:8000/#top
  EMPTY:
  QUOTED: "a # b\\n"
groups:
  - name: main
    size: 1
    command:
      - bash
      - -c
      - |
        echo "one: two"  # stays

        exit 0
  - name: worker
    resources: {
      cpu: 1,
      mem: 1GiB,
    }
deadline: 2026-11-18T08:00:00Z
preemptible: no
text: >-
  one
  two
plain: one
  two
`;

test("a file of a session is read", () => {
  assert.deepEqual(readYaml(SESSION), {
    name: "ddp", size: 4, command: ["torchrun", "train.py", "--lr=0.1", "it's"], resources: { cpu: 2, mem: "4GiB", "cuda.device": 8 },
    where: ["nvme exists", "zone in (a, b)"], environment: { URL: "http://host:8000/#top", EMPTY: null, QUOTED: "a # b\n" },
    groups: [
      { name: "main", size: 1, command: ["bash", "-c", 'echo "one: two"  # stays\n\nexit 0\n'] },
      { name: "worker", resources: { cpu: 1, mem: "1GiB" } },
    ],
    deadline: "2026-11-18T08:00:00Z", preemptible: false, text: "one two", plain: "one two",
  });
  assert.equal(readYaml("# nothing\n"), null);
  assert.deepEqual(readYaml('{"name": "x", "command": ["a", "b"]}'), { name: "x", command: ["a", "b"] });
});

test("what is written is read as the same", () => {
  const values: Yaml[] = [
    readYaml(SESSION),
    { command: ["sh", "-c", "a: b # c", "", " x ", "- y", "yes", "NULL", "0o7", "1:30", "1.5", "[", "it's", "ä\u0000\n"], empty: [], none: {}, nothing: null },
    [[1, [2, { a: [{ b: "c" }] }]], { "odd: key": true, "": 1 }],
    "text",
  ];
  for (const value of values) assert.deepEqual(readYaml(writeYaml(value)), value, writeYaml(value));
});

test("the text of a request is short", () => {
  const body: Yaml = { command: ["python", "train.py"], resources: { cpu: "1", mem: "1GiB" }, size: 4, where: ["nvme exists"] };
  assert.equal(writeYaml(body), 'command: [python, train.py]\nresources:\n  cpu: "1"\n  mem: "1GiB"\nsize: 4\nwhere: [nvme exists]\n');
});

for (const [text, line, words] of [
  ["a: 1\na: 2", 2, "names a a second time"],
  ["a:\n\tb: 1", 2, "by a tab"],
  ["a: [1, 2", 1, "not closed"],
  ["a: 1\n  b: 2", 2, "not indented"],
  ["a: *x", 1, "begins with *"],
  ["a: 1\n---\nb: 1", 2, "another document"],
  ["a: 010", 1, "several meanings"],
  ["a: 1:30", 1, "several meanings"],
  ["a: 1\nword", 2, "no name with a colon"],
  ['a: "\\q"', 1, "means nothing"],
  ["a: [1 2], 3", 1, "after its end"],
  [`a: ${"[".repeat(40)}${"]".repeat(40)}`, 1, "too deeply"],
] as const) {
  test(`a text that ${words} is refused with its line`, () => {
    assert.throws(() => readYaml(text), (error: unknown) => error instanceof YamlProblem && error.line === line && error.message.includes(words));
  });
}
