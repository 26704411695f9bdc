"""Every command: where it lives, and what it does in a few words.

Nothing is imported here: the parser takes longer to load than all of this, and each
command loads only when it runs.
"""

from __future__ import annotations

_COMMANDS = "sokovan.cli.commands"
_SESSIONS = f"{_COMMANDS}.sessions"
_CATALOG = f"{_COMMANDS}.catalog"
_LOCAL = "sokovan.cli.local"

# Nouns, which have commands of their own: sokovan session ls.
NOUNS = {
    "session": "Sessions: list, show, explain, end.",
    "agent": "Machines: list, show, drain, or be one.",
    "queue": "Queues: list, show, change.",
    "quota": "Limits, and who is under them.",
    "scaling-group": "Pools of machines that are scheduled together.",
    "image": "What kernels start from.",
    "domain": "The widest tenants.",
    "group": "Projects.",
    "user": "People and service accounts.",
    "key": "Keys: list, make, make useless.",
    "context": "The servers this client knows.",
    "config": "What this client goes by.",
    "db": "Look at the schema of the store, or bring it up to date.",
}

COMMANDS: dict[str, tuple[str, str]] = {
    "up": (f"{_LOCAL}.up:up", "Run everything on this machine: server, agent, store."),
    "run": (f"{_SESSIONS}.run:run", "Run a command in a session and wait for it."),
    "ps": (f"{_SESSIONS}.ps:ps", "List sessions."),
    "why": (f"{_SESSIONS}.why:why", "Say why a session has not started, and what would help."),
    "plan": (f"{_SESSIONS}.plan:plan", "Say what would become of a session, without asking for it."),
    "logs": (f"{_SESSIONS}.logs:logs", "Print what a session said."),
    "exec": (f"{_SESSIONS}.execute:execute", "Run a command inside a running session."),
    "shell": (f"{_SESSIONS}.shell:shell", "Open a shell in a session of its own, or in one that runs."),
    "wait": (f"{_SESSIONS}.lifecycle:wait", "Wait until sessions are in a state."),
    "stop": (f"{_SESSIONS}.lifecycle:stop", "End sessions."),
    "cancel": (f"{_SESSIONS}.lifecycle:cancel", "Take back sessions that still wait."),
    "session ls": (f"{_SESSIONS}.ps:ps", "List sessions."),
    "session show": (f"{_SESSIONS}.lifecycle:show", "Show one session."),
    "session history": (f"{_SESSIONS}.lifecycle:history", "Tell the whole story of a session."),
    "session why": (f"{_SESSIONS}.why:why", "Say why a session has not started, and what would help."),
    "session stop": (f"{_SESSIONS}.lifecycle:stop", "End sessions."),
    "agent ls": (f"{_COMMANDS}.agents:ls", "List machines."),
    "agent show": (f"{_COMMANDS}.agents:show", "Show one machine."),
    "agent history": (f"{_COMMANDS}.agents:history", "Tell the story of a machine."),
    "agent drain": (f"{_COMMANDS}.agents:drain", "Start nothing new on a machine; what runs goes on."),
    "agent undrain": (f"{_COMMANDS}.agents:undrain", "Take a drained machine back."),
    "agent declare-gone": (f"{_COMMANDS}.agents:declare_gone", "Say that a machine never comes back."),
    "agent run": (f"{_LOCAL}.agent:run", "Be an agent: run kernels of a manager on this machine."),
    "queue ls": (f"{_CATALOG}.queues:ls", "List queues."),
    "queue show": (f"{_CATALOG}.queues:show", "Show one queue."),
    "queue set": (f"{_CATALOG}.queues:change", "Make a queue, or change one."),
    "queue rm": (f"{_CATALOG}.queues:remove", "Remove a queue."),
    "quota ls": (f"{_CATALOG}.quotas:ls", "List limits."),
    "quota show": (f"{_CATALOG}.quotas:show", "Show one set of limits."),
    "quota set": (f"{_CATALOG}.quotas:change", "Make limits, change them, or put an owner under them."),
    "quota rm": (f"{_CATALOG}.quotas:remove", "Remove limits."),
    "scaling-group ls": (f"{_CATALOG}.scaling_groups:ls", "List pools of machines."),
    "scaling-group show": (f"{_CATALOG}.scaling_groups:show", "Show one pool."),
    "scaling-group set": (f"{_CATALOG}.scaling_groups:change", "Make a pool, or change one."),
    "scaling-group rm": (f"{_CATALOG}.scaling_groups:remove", "Remove a pool."),
    "image ls": (f"{_CATALOG}.images:ls", "List images."),
    "image show": (f"{_CATALOG}.images:show", "Show one image."),
    "image set": (f"{_CATALOG}.images:change", "Make an image known, or change one."),
    "image rm": (f"{_CATALOG}.images:remove", "Forget an image."),
    "domain ls": (f"{_CATALOG}.domains:ls", "List domains."),
    "domain show": (f"{_CATALOG}.domains:show", "Show one domain."),
    "domain set": (f"{_CATALOG}.domains:change", "Make a domain, or change one."),
    "domain rm": (f"{_CATALOG}.domains:remove", "Remove a domain."),
    "group ls": (f"{_CATALOG}.groups:ls", "List projects."),
    "group show": (f"{_CATALOG}.groups:show", "Show one project."),
    "group set": (f"{_CATALOG}.groups:change", "Make a project, or change one."),
    "group rm": (f"{_CATALOG}.groups:remove", "Remove a project."),
    "user ls": (f"{_CATALOG}.users:ls", "List users."),
    "user show": (f"{_CATALOG}.users:show", "Show one user."),
    "user set": (f"{_CATALOG}.users:change", "Make a user, or change one."),
    "user rm": (f"{_CATALOG}.users:remove", "Remove a user."),
    "key ls": (f"{_COMMANDS}.keys:ls", "List keys, without their secrets."),
    "key add": (f"{_COMMANDS}.keys:add", "Make a key for a user; it is shown once."),
    "key rm": (f"{_COMMANDS}.keys:remove", "Make a key useless."),
    "context ls": (f"{_COMMANDS}.contexts:ls", "List the servers this client knows."),
    "context use": (f"{_COMMANDS}.contexts:use", "Make a server the current one."),
    "context add": (f"{_COMMANDS}.contexts:add", "Make a server known, with the key for it."),
    "context rm": (f"{_COMMANDS}.contexts:remove", "Forget a server and its key."),
    "config show": (f"{_COMMANDS}.config:show", "Show what this client goes by, and where it comes from."),
    "whoami": (f"{_COMMANDS}.whoami:whoami", "Say who you are to the server."),
    "doctor": (f"{_LOCAL}.doctor:doctor", "Look at this machine: what is there, what is missing."),
    "simulate": (
        f"{_LOCAL}.maintenance:simulate",
        "Try a policy before you apply it, on scenario files.",
    ),
    "audit": (
        f"{_LOCAL}.maintenance:audit",
        "Check that the store keeps its laws: nothing lost or doubled.",
    ),
    "db upgrade": (f"{_LOCAL}.maintenance:upgrade", "Bring the store to the newest schema, in one step or not at all."),
    "db check": (f"{_LOCAL}.maintenance:check", "Say which schema the store has, and whether it is the newest."),
    "init": (f"{_SESSIONS}.spec_files:init", "Write a spec to begin with."),
    "schema": (f"{_SESSIONS}.spec_files:schema", "Print the JSON Schema of a spec."),
    "completion": (f"{_COMMANDS}.completion:completion", "Print what makes a shell complete our words."),
    "help": (f"{_COMMANDS}.help_topics:help_topic", "Read about a topic: exit codes, environment, formats, specs."),
    "version": (f"{_COMMANDS}.version:version", "Show the versions of client and server."),
}

# The order in which `sokovan --help` lists them; a first word that is in no list fails the tests.
SECTIONS = {
    "Begin": ("up", "run", "shell", "init", "doctor"),
    "Sessions": ("ps", "why", "plan", "logs", "exec", "wait", "stop", "cancel", "session"),
    "Machines and owners": (
        "agent", "scaling-group", "queue", "quota", "image", "domain", "group", "user", "key",
    ),
    "This client": ("context", "config", "whoami", "version", "completion", "schema", "help"),
    "Operators": ("simulate", "audit", "db"),
}  # fmt: skip

# What `sokovan help` tells of besides the commands.
TOPICS = {
    "exit-codes": "With which status a command ends.",
    "environment": "The variables that are read.",
    "formatting": "The formats of output.",
    "spec": "The keys of a spec.",
}


def summary_of(word: str) -> str:
    """What `sokovan --help` says of a first word."""
    return NOUNS[word] if word in NOUNS else COMMANDS[word][1]


def first_words() -> list[str]:
    """Every word that may follow `sokovan`."""
    return [word for words in SECTIONS.values() for word in words]


def overview() -> str:
    """What `sokovan --help` prints."""
    lines = ["Usage: sokovan COMMAND [OPTIONS]", "", "An orchestrator for AI compute."]
    for title, words in SECTIONS.items():
        lines += ["", f"{title}:", *(f"  {word:15}{summary_of(word)}" for word in words)]
    return "\n".join(
        [
            *lines,
            "",
            "Options:",
            "  -h, --help     Show this, or the help of a command: sokovan run --help",
            "  --version      Show the version.",
            "",
            "Examples:",
            "  sokovan up",
            "  sokovan run -- python -c \"print('hello')\"",
            "  sokovan run --name ddp --size 4 --gpus 8 --topology hard:rack -- python train.py",
            "  sokovan why ddp",
        ]
    )


def noun_overview(noun: str) -> str:
    """What `sokovan NOUN --help` prints."""
    verbs = {
        words.partition(" ")[2]: summary for words, (_, summary) in COMMANDS.items() if words.startswith(f"{noun} ")
    }
    return "\n".join(
        [
            f"Usage: sokovan {noun} COMMAND [OPTIONS]",
            "",
            NOUNS[noun],
            "",
            "Commands:",
            *(f"  {verb:15}{summary}" for verb, summary in verbs.items()),
            "",
            "Options:",
            f"  -h, --help     Show this, or the help of a command: sokovan {noun} {next(iter(verbs))} --help",
        ]
    )
