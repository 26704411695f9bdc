"""The generated commands ls, show, set and rm of the catalogue nouns."""

from __future__ import annotations

import json

import pytest

from sokovan.cli.command_table import CATALOG_NOUNS
from sokovan.cli.commands.catalog import catalog_commands
from tests.unit.cli.canned_server import CannedServer, Sokovan

PATHS = {"quota": "policies"}
BODIES = {"group": {"domain": "d"}, "user": {"domain": "d"}}
ME = {"user": "ada", "role": "admin", "domain": "physics", "groups": [], "access_key": "AK-1"}


@pytest.mark.parametrize("name", ["queue_sort", "planet_ls", "ls"])
def test_there_are_no_other_commands(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(catalog_commands, name)


@pytest.mark.slow
@pytest.mark.parametrize("noun", CATALOG_NOUNS)
def test_every_noun_is_listed_shown_and_removed_with_yes(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    path, body = PATHS.get(noun, f"{noun}s"), {"name": "a", **BODIES.get(noun, {})}
    for owners in ("domains", "groups", "users", "keys", "scaling-groups"):
        server.says(f"GET {owners}", {"items": [], "next": None})
    server.says(f"GET {path}", {"items": [body], "next": None})
    server.says(f"GET {path}/a", body)
    server.says(f"DELETE {path}/a", None, status=204)
    assert sokovan(noun, "ls", "-o", "name") == (0, "a\n", "")
    status, out, _ = sokovan(noun, "show", "a")
    assert status == 0
    assert out.split()[:2] == ["name", "a"]
    assert sokovan(noun, "rm", "a")[0] == 2
    assert not any(line.startswith("DELETE") for line in server.lines)
    status, _, err = sokovan(noun, "rm", "a", "--yes")
    assert (status, err.endswith("removed\n")) == (0, True)


def test_the_keys_that_are_revoked_with_a_user_are_named(server: CannedServer, sokovan: Sokovan) -> None:
    owners = {"AK-1": "ada", "AK-2": "bob", "AK-3": "ada"}
    keys = [{"access_key": key, "user": user, "policy": None, "active": True} for key, user in owners.items()]
    server.says("GET keys", {"items": keys, "next": None})
    server.says("DELETE users/ada", None, status=204)
    assert sokovan("user", "rm", "ada", "--yes") == (0, "", "user ada, key AK-1, key AK-3 removed\n")


@pytest.mark.parametrize("noun", CATALOG_NOUNS)
def test_an_absent_object_fails_before_the_prompt(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    status, _, err = sokovan(noun, "rm", "absent")
    assert (status, "cannot prompt" in err) == (3, False)
    assert [line.partition(" ")[0] for line in server.lines] == ["GET"]


@pytest.mark.parametrize("noun", CATALOG_NOUNS)
def test_an_absent_object_exits_with_3(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    status, out, err = sokovan(noun, "show", "absent")
    assert (status, out) == (3, "")
    assert "[not-found]" in err
    assert len(server.asked) == 1


def test_a_scaling_group_is_created(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT scaling-groups/gpu", {"name": "gpu"}, status=201)
    words = ("--scheduler", "drf", "--slot", "cpu", "--slot", "mem", "--pending-timeout", "2h", "--option", "a=1")
    memory = ("--mem-per-gpu", "32GiB", "--mem-per-cpu", "2GiB")
    assert sokovan("scaling-group", "set", "gpu", *words, *memory, "--option", "b=text")[0] == 0
    assert server.body("PUT scaling-groups/gpu") == {
        "name": "gpu",
        "scheduler": "drf",
        "scheduler_opts": {"a": 1, "b": "text"},
        "known_slots": ["cpu", "mem"],
        "pending_timeout_s": 7200,
        "mem_per_gpu": "32GiB",
        "mem_per_cpu": "2GiB",
    }


def test_scheduler_options_are_merged(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET scaling-groups/gpu", {"name": "gpu", "scheduler_opts": {"a": 1, "b": 2}})
    server.says("PUT scaling-groups/gpu", {"name": "gpu"})
    sokovan("scaling-group", "set", "gpu", "--option", 'b={"c": [1]}')
    assert server.body("PUT scaling-groups/gpu") == {"name": "gpu", "scheduler_opts": {"a": 1, "b": {"c": [1]}}}


@pytest.mark.slow
def test_an_invalid_scheduler_option_or_timeout_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("scaling-group", "set", "gpu", "--option", "a")[0] == 2
    assert sokovan("scaling-group", "set", "gpu", "--pending-timeout", "long")[0] == 2
    assert server.asked == []


def test_a_queue_is_created(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT queues/research", {"name": "research"}, status=201)
    words = ("--weight", "3", "--max", "gpu=256", "--guarantee", "gpu=8", "--deserved", "cpu=4", "--parent", "root")
    assert sokovan("queue", "set", "research", *words) == (0, "", "queue research created\n")
    assert server.body("PUT queues/research") == {
        "name": "research",
        "parent": "root",
        "weight": 3,
        "deserved": {"cpu": "4"},
        "guarantee": {"cuda.device": "8"},
        "capability": {"cuda.device": "256"},
    }


def test_a_queue_is_closed_and_everything_else_stays(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET queues/research", {"name": "research", "weight": 3})
    server.says("PUT queues/research", {"name": "research"})
    assert sokovan("queue", "set", "research", "--closed") == (0, "", "queue research updated\n")
    assert server.body("PUT queues/research") == {"name": "research", "weight": 3, "open": False}


def test_an_invalid_amount_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    assert sokovan("queue", "set", "research", "--max", "gpu")[0] == 2
    assert sokovan("queue", "set", "research", "--weight", "heavy")[0] == 2
    assert server.asked == []


def test_a_quota_is_created(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT policies/students", {"name": "students"}, status=201)
    words = ("gpu=8", "cpu=64", "--sessions", "10", "--pending", "5", "--kernels", "4", "--priority", "1")
    assert sokovan("quota", "set", "students", *words)[0] == 0
    assert server.body("PUT policies/students") == {
        "name": "students",
        "slots_max": {"cuda.device": "8", "cpu": "64"},
        "sessions_max": 10,
        "pending_sessions_max": 5,
        "kernels_per_session_max": 4,
        "priority_max": 1,
    }


def test_an_image_is_created_for_one_architecture(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT images/a/b:1", {"name": "a/b:1"}, status=201)
    words = ("--architecture", "arm64", "--digest", "sha256:0", "--least", "mem=4GiB")
    assert sokovan("image", "set", "a/b:1", *words) == (0, "", "image a/b:1 created\n")
    assert server.lines == ["GET images/a/b:1?architecture=arm64", "PUT images/a/b:1"]
    assert server.body("PUT images/a/b:1") == {
        "name": "a/b:1",
        "architecture": "arm64",
        "digest": "sha256:0",
        "slots_min": {"mem": "4GiB"},
    }


def test_an_image_is_removed_for_one_architecture(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("DELETE images/a/b:1", None, status=204)
    assert sokovan("image", "rm", "a/b:1", "-y")[0] == 0
    assert server.lines == ["DELETE images/a/b:1?architecture=x86_64"]


def test_a_domain_is_created_with_a_quota(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT domains/physics", {"name": "physics"}, status=201)
    assert sokovan("domain", "set", "physics", "--quota", "big") == (0, "", "domain physics created\n")
    assert server.body("PUT domains/physics") == {"name": "physics", "policy": "big"}


def test_a_new_group_belongs_to_the_domain_of_its_creator(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET whoami", ME)
    server.says("PUT groups/nlp", {"name": "nlp", "domain": "physics"}, status=201)
    assert sokovan("group", "set", "nlp", "--quota", "big")[0] == 0
    assert server.body("PUT groups/nlp") == {"name": "nlp", "domain": "physics", "policy": "big"}


def test_a_given_domain_needs_no_whoami_request(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT groups/nlp", {"name": "nlp", "domain": "d"}, status=201)
    assert sokovan("group", "set", "nlp", "--domain", "d")[0] == 0
    assert "GET whoami" not in server.lines


def test_json_prints_the_stored_user(server: CannedServer, sokovan: Sokovan) -> None:
    ada = {"name": "ada", "domain": "default", "role": "user", "groups": ["nlp"], "policy": None}
    server.says("GET users/ada", ada)
    server.says("PUT users/ada", ada)
    status, out, err = sokovan("user", "set", "ada", "--group", "nlp", "--json")
    assert (status, json.loads(out)["groups"], err) == (0, ["nlp"], "")


def test_a_user_is_created_with_role_and_groups(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT users/ada", {"name": "ada", "domain": "d"}, status=201)
    words = ("--domain", "d", "--group", "nlp", "--group", "vision", "--role", "domain-admin", "--quota", "q")
    assert sokovan("user", "set", "ada", *words)[0] == 0
    assert server.body("PUT users/ada") == {
        "name": "ada",
        "domain": "d",
        "groups": ["nlp", "vision"],
        "policy": "q",
        "role": "domain-admin",
    }


@pytest.mark.slow
def test_an_unknown_role_is_a_usage_error(server: CannedServer, sokovan: Sokovan) -> None:
    status, _, err = sokovan("user", "set", "ada", "--role", "king")
    assert (status, server.asked) == (2, [])
    assert "Choose from" in err


def test_limits_of_pending_sessions_are_set_and_shown(server: CannedServer, sokovan: Sokovan) -> None:
    stored = {"name": "students", "slots_max": {"cpu": "64"}, "pending_slots_max": {"mem": "1Gi"}}
    server.says("GET policies/students", stored)
    server.says("PUT policies/students", stored)
    assert sokovan("quota", "set", "students", "--pending-slot", "gpu=16")[0] == 0
    assert server.body("PUT policies/students")["pending_slots_max"] == {"mem": "1Gi", "cuda.device": "16"}
    assert server.body("PUT policies/students")["slots_max"] == {"cpu": "64"}
    for path in ("domains", "groups", "users", "keys"):
        server.says(f"GET {path}", {"items": []})
    assert "pending_slots  mem=1Gi" in sokovan("quota", "show", "students")[1]


@pytest.mark.slow
def test_empty_values_clear_settings(server: CannedServer, sokovan: Sokovan) -> None:
    stored = {"name": "q", "parent": "research", "weight": 3, "capability": {"cpu": "1", "mem": "1Gi"}}
    server.says("GET queues/q", stored)
    server.says("PUT queues/q", {"name": "q"})
    assert sokovan("queue", "set", "q", "--parent", "", "--max", "cpu=", "--weight", "") == (0, "", "queue q updated\n")
    assert server.body("PUT queues/q") == {"name": "q", "capability": {"mem": "1Gi"}}
    server.says("GET users/ada", {"name": "ada", "domain": "d", "groups": ["nlp"], "policy": "big"})
    server.says("PUT users/ada", {"name": "ada", "domain": "d"})
    assert sokovan("user", "set", "ada", "--quota", "", "--group", "")[0] == 0
    assert server.body("PUT users/ada") == {"name": "ada", "domain": "d"}
    status, _, err = sokovan("user", "set", "ada", "--domain", "")
    assert (status, "--domain is empty" in err) == (2, True)


def test_a_negative_number_reaches_the_server(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("PUT queues/q", {"name": "q"}, status=201)
    assert sokovan("queue", "set", "q", "--priority", "-5")[0] == 0
    assert server.body("PUT queues/q") == {"name": "q", "priority": -5}


def test_a_queue_is_shown_with_its_shares(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET queues/a", {"name": "a"})
    server.says("GET scaling-groups", {"items": [{"name": "default"}], "next": None})
    share = {
        "queue": "a", "scaling_group": "default", "slot": "cpu", "allocated": 6000, "borrowed": 2000, "waiting": 8000,
        "guarantee": 0, "limit": 16000, "deserved": 4000,
    }  # fmt: skip
    server.says("GET queue-shares", {"items": [share, {**share, "slot": "mem", "deserved": None, "waiting": 0}]})
    status, out, _ = sokovan("queue", "show", "a")
    assert status == 0
    assert "6 in use, 4 deserved, 2 borrowed, 8 waiting" in out
    status, out, _ = sokovan("queue", "show", "a", "--json")
    found = json.loads(out)
    assert (status, found["name"], found["shares"][0]) == (0, "a", share)
    assert [one["slot"] for one in found["shares"]] == ["cpu", "mem"]


def test_a_quota_is_shown_with_its_owners_in_every_format(server: CannedServer, sokovan: Sokovan) -> None:
    server.says("GET policies/p", {"name": "p"})
    for owners in ("domains", "groups", "keys"):
        server.says(f"GET {owners}", {"items": [], "next": None})
    server.says("GET users", {"items": [{"name": "ada", "domain": "d", "policy": "p"}], "next": None})
    status, out, _ = sokovan("quota", "show", "p", "--json")
    assert (status, json.loads(out)["assigned_to"]) == (0, ["user:ada"])
