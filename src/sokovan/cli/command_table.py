"""Table of all commands: import path and one-line summary.

Importing this module imports no command, so that help screens and shell completion
start fast.
"""

from __future__ import annotations

_COMMANDS = "sokovan.cli.commands"
_SESSIONS = f"{_COMMANDS}.sessions"
_SERVING = f"{_COMMANDS}.serving"
_CATALOG = f"{_COMMANDS}.catalog.catalog_commands"
_BOOKINGS = f"{_COMMANDS}.catalog.bookings"
_LOCAL = "sokovan.cli.local"

# Nouns have commands of their own: sokovan session ls.
NOUNS = {
    "session": "List, inspect and stop sessions.",
    "deployment": "List, inspect, scale, update and delete deployments.",
    "route": "List, inspect and set the routes of deployments.",
    "token": "Create, list and revoke tokens for clients of deployments.",
    "agent": "List, label, drain and run agents.",
    "topology": "Manage the topology (HyperNodes over agents).",
    "scaling-group": "Manage scaling groups (pools of agents).",
    "queue": "Manage queues.",
    "booking": "Book agents for a time, and list and remove bookings.",
    "quota": "Manage quotas (resource limits).",
    "image": "Manage images.",
    "domain": "Manage domains (top-level tenants).",
    "group": "Manage groups (projects of a domain).",
    "user": "Manage users.",
    "key": "List, create, limit and revoke API keys.",
    "login": "List and end logins of the dashboard.",
    "context": "Manage contexts (servers and their API keys).",
    "config": "Show the settings of client and server; push shared ones.",
    "server": "Run, set up, check and migrate a manager of a cluster.",
    "db": "Check or upgrade the database; rotate its key.",
}

# Nouns with the commands ls, show, set and rm, which `catalog.catalog_commands` generates.
CATALOG_NOUNS = ("scaling-group", "queue", "quota", "image", "domain", "group", "user")


def _catalog_commands(noun: str) -> dict[str, tuple[str, str]]:
    title, prefix = noun.replace("-", " "), f"{_CATALOG}:{noun.replace('-', '_')}"
    one = f"an {title}" if title == "image" else f"a {title}"
    return {
        f"{noun} ls": (f"{prefix}_ls", f"List {title}s."),
        f"{noun} show": (f"{prefix}_show", f"Show {one}."),
        f"{noun} set": (f"{prefix}_set", f"Create or update {one}."),
        f"{noun} rm": (f"{prefix}_rm", f"Remove {one}."),
    }


COMMANDS: dict[str, tuple[str, str]] = {
    "up": (f"{_LOCAL}.up:up", "Start server, agent and database on this machine."),
    "down": (f"{_LOCAL}.server:down", "Stop the server on this machine."),
    "status": (f"{_LOCAL}.server:status", "Show whether the server on this machine runs."),
    "dashboard": (f"{_SERVING}.dashboard:dashboard", "Open the dashboard in the browser."),
    "run": (f"{_SESSIONS}.run:run", "Run a command in a new session and wait for it."),
    "ps": (f"{_SESSIONS}.ps:ps", "List sessions."),
    "why": (f"{_SESSIONS}.why:why", "Explain why a session is pending and what would help."),
    "plan": (f"{_SESSIONS}.plan:plan", "Show how a session would be scheduled (dry run)."),
    "logs": (f"{_SESSIONS}.logs:logs", "Print the output of a session."),
    "exec": (f"{_SESSIONS}.execute:execute", "Run a command inside a running session."),
    "port-forward": (
        f"{_COMMANDS}.serving.port_forward:port_forward",
        "Make ports of a session available on this machine.",
    ),
    "open": (f"{_COMMANDS}.serving.open_app:open_app", "Open a web application of a session in the browser."),
    "cp": (f"{_COMMANDS}.session_files:cp", "Copy files between this machine and a session."),
    "shell": (f"{_SESSIONS}.shell:shell", "Open a shell in a new or a running session."),
    "wait": (f"{_SESSIONS}.lifecycle:wait", "Wait until sessions reach a state."),
    "stop": (f"{_SESSIONS}.lifecycle:stop", "Stop sessions."),
    "cancel": (f"{_SESSIONS}.lifecycle:cancel", "Cancel pending sessions."),
    "session ls": (f"{_SESSIONS}.ps:ps", "List sessions."),
    "session show": (f"{_SESSIONS}.lifecycle:show", "Show a session or an array."),
    "session history": (f"{_SESSIONS}.lifecycle:history", "Show the state transitions of a session."),
    "session spec": (f"{_SESSIONS}.spec_files:session_spec", "Print the spec file that runs a session again."),
    "session stats": (f"{_COMMANDS}.catalog.session_use:stats", "Show what the kernels of a session use."),
    "session files": (f"{_COMMANDS}.session_files:files", "List files of a session."),
    "session why": (f"{_SESSIONS}.why:why", "Explain why a session is pending and what would help."),
    "session release": (f"{_SESSIONS}.lifecycle:release", "Release held sessions, so that they may start."),
    "session stop": (f"{_SESSIONS}.lifecycle:stop", "Stop sessions."),
    "serve": (f"{_SERVING}.serve:serve", "Serve a model at an OpenAI-compatible URL."),
    "apply": (f"{_SERVING}.apply:apply", "Create or update the deployments of a file."),
    "chat": (f"{_SERVING}.chat:chat", "Ask a served model and print its answer."),
    "deployment ls": (f"{_SERVING}.deployments:ls", "List deployments."),
    "deployment show": (f"{_SERVING}.deployments:show", "Show a deployment and its replicas."),
    "deployment scale": (f"{_SERVING}.deployments:scale", "Set the number of replicas of a deployment."),
    "deployment update": (f"{_SERVING}.deployments:update", "Change what the replicas of a deployment run."),
    "deployment promote": (f"{_SERVING}.deployments:promote", "Promote a canary to the whole deployment."),
    "deployment rollback": (f"{_SERVING}.deployments:rollback", "Return a deployment to an earlier revision."),
    "deployment history": (f"{_SERVING}.deployments:history", "List the revisions of a deployment, newest first."),
    "deployment why": (f"{_SERVING}.deployments:why", "Explain why a deployment is not as desired."),
    "deployment plan": (f"{_SERVING}.deployments:plan", "Show the command that a deployment would run."),
    "deployment events": (f"{_SERVING}.events:events", "Show what happened to a deployment."),
    "deployment rm": (f"{_SERVING}.deployments:rm", "Delete a deployment."),
    "route ls": (f"{_SERVING}.routes:ls", "List the routes of deployments."),
    "route show": (f"{_SERVING}.routes:show", "Show the route of a deployment and its endpoints."),
    "route set": (f"{_SERVING}.routes:set_route", "Set weights, shares, names, routing or access of a route."),
    "route export": (f"{_SERVING}.route_export:export", "Write the gateways as a configuration of another proxy."),
    "token create": (f"{_SERVING}.tokens:create", "Create a token for clients of a deployment."),
    "token ls": (f"{_SERVING}.tokens:ls", "List the tokens of a deployment."),
    "token revoke": (f"{_SERVING}.tokens:revoke", "Revoke a token of a deployment."),
    "agent ls": (f"{_COMMANDS}.agents:ls", "List agents."),
    "agent show": (f"{_COMMANDS}.agents:show", "Show an agent."),
    "agent history": (f"{_COMMANDS}.agents:history", "Show the state transitions of an agent."),
    "agent devices": (f"{_COMMANDS}.catalog.devices:devices", "List devices and the sessions that hold them."),
    "agent timeline": (
        f"{_COMMANDS}.catalog.device_timeline:device_timeline",
        "Show when the devices of agents were held.",
    ),
    "agent drain": (f"{_COMMANDS}.agents:drain", "Stop scheduling on an agent; running kernels continue."),
    "agent undrain": (f"{_COMMANDS}.agents:undrain", "Resume scheduling on a drained or failing agent."),
    "agent declare-gone": (f"{_COMMANDS}.agents:declare_gone", "Declare an agent permanently lost."),
    "agent label": (f"{_COMMANDS}.agents:label", "Set and remove labels of an agent."),
    "agent taint": (f"{_COMMANDS}.agents:taint", "Set and remove taints of an agent."),
    "agent maintenance": (f"{_BOOKINGS}:maintenance", "Keep agents free of sessions for a time."),
    "agent run": (f"{_LOCAL}.agent:run", "Run an agent on this machine."),
    "agent token": (f"{_COMMANDS}.agents:token", "Create a token that lets one machine join."),
    "agent tokens": (f"{_COMMANDS}.agents:tokens", "List unused join tokens."),
    "agent revoke-token": (f"{_COMMANDS}.agents:revoke_token", "Revoke an unused join token."),
    "agent approve": (f"{_COMMANDS}.agents:approve", "Approve what an agent claims beyond its join token."),
    "agent join": (f"{_LOCAL}.agent:join", "Join this machine to a manager, and run its agent."),
    "agent remove": (f"{_COMMANDS}.agents:remove", "Revoke the certificate of an agent."),
    **{words: place for noun in CATALOG_NOUNS for words, place in _catalog_commands(noun).items()},
    "queue shares": (f"{_COMMANDS}.usage:shares", "Show what queues use, deserve and borrow now."),
    "booking create": (f"{_BOOKINGS}:create", "Book agents for a time."),
    "booking ls": (f"{_BOOKINGS}:ls", "List bookings and maintenance windows."),
    "booking show": (f"{_BOOKINGS}:show", "Show a booking."),
    "booking rm": (f"{_BOOKINGS}:rm", "Remove a booking; its agents are free for all."),
    "topology apply": (f"{_COMMANDS}.topology:apply", "Replace the topology with that of a file."),
    "topology ls": (f"{_COMMANDS}.topology:ls", "List HyperNodes with their free resources."),
    "topology show": (f"{_COMMANDS}.topology:show", "Show the topology as a tree with free and total resources."),
    "topology rm": (f"{_COMMANDS}.topology:rm", "Remove the topology; agents are then in no HyperNode."),
    "key ls": (f"{_COMMANDS}.keys:ls", "List API keys."),
    "key add": (f"{_COMMANDS}.keys:add", "Create an API key."),
    "key set": (f"{_COMMANDS}.keys:set_quota", "Set the quota of an API key."),
    "key rm": (f"{_COMMANDS}.keys:remove", "Revoke an API key."),
    "login ls": (f"{_SERVING}.dashboard:ls", "List browsers that are logged in to the dashboard."),
    "login rm": (f"{_SERVING}.dashboard:remove", "End a login of the dashboard."),
    "usage": (f"{_COMMANDS}.usage:usage", "Show past usage of users, groups and queues."),
    "timeline": (f"{_COMMANDS}.catalog.timeline:timeline", "Show how long sessions waited and held their slots."),
    "limits": (f"{_COMMANDS}.catalog.limits:limits", "Show what owners hold now, and the most they may hold."),
    "what-if": (f"{_COMMANDS}.catalog.what_if:what_if", "Show what changes of the cluster would do."),
    "audit-log": (f"{_COMMANDS}.usage:audit_log", "Show who did what to which object."),
    "context ls": (f"{_COMMANDS}.contexts:ls", "List contexts."),
    "context use": (f"{_COMMANDS}.contexts:use", "Set the current context."),
    "context add": (f"{_COMMANDS}.contexts:add", "Add a context."),
    "context rm": (f"{_COMMANDS}.contexts:remove", "Remove a context and its API key."),
    "config server": (f"{_LOCAL}.server_settings:server", "Show the settings of the server, or check a file."),
    "config show": (f"{_COMMANDS}.config:show", "Show the effective settings and their origin."),
    "config push": (f"{_LOCAL}.server_settings:push", "Push a configuration file to etcd."),
    "whoami": (f"{_COMMANDS}.whoami:whoami", "Show the authenticated user."),
    "server run": (f"{_LOCAL}.cluster_server:run", "Run a manager on a PostgreSQL database."),
    "server init": (f"{_LOCAL}.cluster_server:init", "Write a configuration file, and create the keys of a cluster."),
    "server check": (f"{_LOCAL}.cluster_server:check", "Check each part that a manager needs."),
    "server migrate": (f"{_LOCAL}.cluster_server:migrate", "Create or upgrade the schema; copy a store of sokovan up."),
    "server roles": (
        f"{_LOCAL}.cluster_server:roles",
        "Print the SQL that creates separate database roles, or run it.",
    ),
    "server status": (f"{_LOCAL}.cluster_server:status", "Show the leaders, agents and sessions of the cluster."),
    "proxy": (f"{_LOCAL}.proxy:proxy", "Run a proxy, which forwards requests to deployments."),
    "doctor": (f"{_LOCAL}.doctor:doctor", "Check what this machine provides and what is missing."),
    "simulate": (f"{_LOCAL}.maintenance:simulate", "Simulate scheduling on scenario files."),
    "audit": (f"{_LOCAL}.maintenance:audit", "Check the invariants of the database."),
    "db upgrade": (f"{_LOCAL}.maintenance:upgrade", "Upgrade the database schema to the newest revision."),
    "db check": (f"{_LOCAL}.maintenance:check", "Check whether the database schema is current."),
    "db rotate-key": (f"{_LOCAL}.maintenance:rotate_key", "Add a new key for secret variables."),
    "init": (f"{_SESSIONS}.spec_files:init", "Create a session spec file."),
    "schema": (f"{_SESSIONS}.spec_files:schema", "Print the JSON Schema of a spec."),
    "completion": (f"{_COMMANDS}.completion:completion", "Generate shell completion."),
    "help": (f"{_COMMANDS}.help_topics:help_topic", "Show help on a command or topic."),
    "version": (f"{_COMMANDS}.version:version", "Show client and server versions."),
}

# The order of `sokovan --help`; tests check that every first word is listed.
SECTIONS = {
    "Getting started": ("up", "down", "status", "dashboard", "run", "shell", "init", "doctor"),
    "Sessions": (
        "ps", "why", "plan", "logs", "exec", "cp", "port-forward",
        "open", "wait", "stop", "cancel", "session",
    ),
    "Serving": ("serve", "apply", "chat", "deployment", "route", "token"),
    "Cluster": (
        "agent", "topology", "scaling-group", "queue", "booking", "quota", "image", "domain", "group", "user",
        "key", "login", "limits", "usage", "timeline", "what-if", "audit-log",
    ),
    "Client": ("context", "config", "whoami", "version", "completion", "schema", "help"),
    "Operations": ("server", "proxy", "simulate", "audit", "db"),
}  # fmt: skip

# The command that a noun stands for if an option follows it: sokovan server --config FILE.
DEFAULT_VERBS = {"server": "run"}

# Topics of `sokovan help` besides the commands.
TOPICS = {
    "exit-codes": "Exit codes and their meaning.",
    "environment": "Environment variables.",
    "formatting": "Output formats.",
    "spec": "Keys of a session spec.",
    "deployment-spec": "Keys of a deployment spec.",
}


def summary_of(word: str) -> str:
    """The line of `sokovan --help` for a first word."""
    return NOUNS[word] if word in NOUNS else COMMANDS[word][1]


def first_words() -> list[str]:
    """Every word that may follow `sokovan`."""
    return [word for words in SECTIONS.values() for word in words]


def overview() -> str:
    """The help screen of `sokovan`."""
    lines = ["Usage: sokovan COMMAND [OPTIONS]", "", "An orchestrator for AI compute."]
    for title, words in SECTIONS.items():
        lines += ["", f"{title}:", *(f"  {word:15}{summary_of(word)}" for word in words)]
    return "\n".join(
        [
            *lines,
            "",
            "Options:",
            "  -h, --help     Show this help, or that of a command: sokovan run --help",
            "  --version      Show the version.",
            "",
            "Examples:",
            "  sokovan up",
            "  sokovan run -- python -c \"print('hello')\"",
            "  sokovan run -n ddp --size 4 --gpus 8 --topology hard:rack -- python train.py",
            "  sokovan why ddp",
        ]
    )


def noun_overview(noun: str) -> str:
    """The help screen of a noun, such as `sokovan session`."""
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
            f"  -h, --help     Show this help, or that of a command: sokovan {noun} {next(iter(verbs))} --help",
        ]
    )
