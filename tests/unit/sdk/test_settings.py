"""Settings of the client and their origins."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.sdk.config import save_context
from sokovan.sdk.errors import InvalidSetting, NotLoggedIn
from sokovan.sdk.settings import ClientSettings, resolve

LAB = "https://lab.example"


class Home:
    """A home folder with a configuration file and a project."""

    def __init__(self, path: Path) -> None:
        self.config, self.project = path / "config" / "sokovan" / "config.toml", path / "work"
        (self.project / "deep").mkdir(parents=True)
        self.environment = {"XDG_CONFIG_HOME": str(path / "config"), "HOME": str(path)}

    def write_project_file(self, text: str) -> None:
        """Write the project file."""
        (self.project / ".sokovan.toml").write_text(text, encoding="utf-8")

    def settings(self, flags: dict[str, str | None] | None = None, **variables: str) -> ClientSettings:
        """The settings in a subfolder of the project."""
        return resolve(flags, environment={**self.environment, **variables}, folder=self.project / "deep")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with two contexts, of which lab is current."""
    made = Home(tmp_path)
    save_context("local", "http://127.0.0.1:7646", "sk-local", path=made.config)
    save_context("lab", LAB, "sk-lab", path=made.config)
    return made


def test_the_default_is_the_current_context(home: Home) -> None:
    found = home.settings()
    assert found.credentials() == (LAB, "sk-lab")
    assert found.origin("url") == f"context lab in {home.config}"
    assert (found["queue"], found.origin("queue")) == ("", "default")


def test_a_flag_wins_over_the_environment_and_that_over_the_project(home: Home) -> None:
    home.write_project_file('queue = "from-file"\nimage = "host"\n')
    found = home.settings({"queue": "from-flag", "group": None}, SOKOVAN_QUEUE="from-env", SOKOVAN_GROUP="nlp")
    assert [(found[name], found.origin(name)) for name in ("queue", "group", "image")] == [
        ("from-flag", "--queue"),
        ("nlp", "SOKOVAN_GROUP"),
        ("host", str(home.project / ".sokovan.toml")),
    ]


@pytest.mark.parametrize(("flags", "variables"), [({"context": "local"}, {}), (None, {"SOKOVAN_CONTEXT": "local"})])
def test_another_context_may_be_named(home: Home, flags: dict[str, str | None], variables: dict[str, str]) -> None:
    assert home.settings(flags, **variables).credentials() == ("http://127.0.0.1:7646", "sk-local")


def test_the_key_of_a_context_never_goes_to_another_server(home: Home) -> None:
    with pytest.raises(NotLoggedIn, match=r"evil\.example"):
        home.settings({"url": "https://evil.example"}).credentials()
    with pytest.raises(NotLoggedIn):
        home.settings(SOKOVAN_URL="https://evil.example").credentials()
    assert home.settings(SOKOVAN_URL=f"{LAB}/").credentials() == (LAB, "sk-lab")


def test_the_authority_of_a_context_belongs_to_its_server(home: Home) -> None:
    save_context("far", "https://10.0.0.1:7645", "sk-far", ca="/etc/authority.pem", path=home.config)
    assert home.settings()["ca"] == "/etc/authority.pem"
    assert home.settings({"url": "https://evil.example"})["ca"] == ""
    assert home.settings(SOKOVAN_CA="/srv/other.pem")["ca"] == "/srv/other.pem"
    assert home.settings({"context": "lab"})["ca"] == ""


def test_a_key_from_the_environment_is_used_with_the_address_from_it(home: Home) -> None:
    variables = {"SOKOVAN_URL": "https://other", "SOKOVAN_TOKEN": "sk-other"}
    found = home.settings(None, **variables)
    assert found.credentials() == ("https://other", "sk-other")


def test_an_unknown_context_names_the_origin_of_its_name(home: Home) -> None:
    with pytest.raises(InvalidSetting, match="SOKOVAN_CONTEXT names the context 'x'"):
        home.settings(SOKOVAN_CONTEXT="x")


@pytest.mark.parametrize("text", ['url = "http://evil"', 'token = "x"', "queue = 3", 'colour = "red"', "queue"])
def test_a_project_file_may_set_neither_the_address_nor_unknown_keys(home: Home, text: str) -> None:
    home.write_project_file(text)
    with pytest.raises(InvalidSetting, match=r"\.sokovan\.toml"):
        home.settings()


def test_without_any_file_it_is_the_embedded_server_without_a_key(tmp_path: Path) -> None:
    found = resolve({}, environment={"HOME": str(tmp_path)}, folder=tmp_path)
    assert (found["url"], found["token"]) == ("http://127.0.0.1:7646", "")
    with pytest.raises(NotLoggedIn):
        found.credentials()
