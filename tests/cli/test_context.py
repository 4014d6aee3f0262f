"""Contexts: which server a command goes to, where its token comes from, and what is never printed."""

import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.cli.contexts import Contexts, Profile, TokenSource, file_of_contexts, load, save

SECRET = "ew_" + "s" * 40
PROD = Profile(url="https://prod.test", tenant="acme-prod", token=TokenSource(env="PROD_TOKEN"))
DEV = Profile(url="https://dev.test", tenant="acme-dev", token=TokenSource(env="DEV_TOKEN"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user without contexts, in an empty folder, with nothing in the environment."""
    for name in [name for name in os.environ if name.startswith("EVERWHEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")


def run(*arguments, exit_code=0, **kwargs):
    result = CliRunner().invoke(main, arguments, **kwargs)
    assert result.exit_code == exit_code, (arguments, result.output, result.exception)
    return result


def shown(*arguments, **kwargs):
    return json.loads(run(*arguments, "-o", "json", **kwargs).stdout)["items"]


def have(*, current=None, **profiles):
    save(Contexts(current=current, profiles=profiles))


def test_contexts_are_made_listed_changed_used_and_removed():
    run("context", "set", "prod", "--url", "https://prod.test/", "--tenant", "acme-prod", "--token-env", "PROD_TOKEN")
    run("context", "set", "dev", "--url", "http://127.0.0.1:8484")
    run("context", "set", "prod", "--protected")

    assert run("context", "list", "-o", "name").stdout.split() == ["dev", "prod"]
    assert [row["in_use"] for row in shown("context", "list")] == [False, True]
    assert shown("context", "show", "prod") == [
        {"name": "prod", "url": "https://prod.test", "tenant": "acme-prod", "token": "variable PROD_TOKEN (not set)",
         "protected": True, "in_use": True}
    ]  # fmt: skip
    run("context", "use", "dev")
    assert run("context", "show", "-o", "name").stdout.strip() == "dev"
    run("context", "remove", "dev")
    assert load() == Contexts(current=None, profiles={"prod": Profile(**{**vars_of(PROD), "protected": True})})


def vars_of(profile):
    return {name: getattr(profile, name) for name in profile.__dataclass_fields__}


def test_the_file_is_its_owners_alone():
    run("context", "set", "prod", "--url", "https://prod.test")

    assert stat.S_IMODE(file_of_contexts().stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of_contexts().parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_touch_is_refused(mode):
    have(prod=PROD)
    file_of_contexts().chmod(mode)

    assert "chmod 600" in run("task", "list", exit_code=2).stderr


@pytest.mark.parametrize(
    "text", ["", "[]", '{"contexts": {"p": {"url": 1}}}', '{"contexts": {"p": {"url": "ftp://x"}}}']
)
def test_a_file_that_is_none_says_so_in_one_line(text):
    have(prod=PROD)
    file_of_contexts().write_text(text)

    assert run("context", "list", exit_code=2).stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "needs --url"),
        (("--url", "prod.test"), "no address"),
        (("--url", f"https://me:{SECRET}@prod.test"), "no user, password"),
        (("--url", "https://prod.test", "--token-env", SECRET), "names a variable"),
        (("--url", "https://prod.test", "--token-env", "eyJ.a.b"), "names a variable"),
        (("--url", "https://prod.test", "--token-env", "A", "--token-file", "b"), "one source"),
        (("--url", "https://prod.test", "--token-command", "'"), "cannot be read"),
        (("--url", "https://prod.test", "--token-command", " "), "is empty"),
    ],
)
def test_what_cannot_be_a_context_is_refused_and_no_secret_is_repeated(options, said):
    result = run("context", "set", "prod", *options, exit_code=2)

    assert said in result.stderr
    assert SECRET not in result.output
    assert load() == Contexts()


def test_no_token_is_ever_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("PROD_TOKEN", SECRET)
    (tmp_path / "token").write_text(SECRET)
    have(
        by_env=PROD,
        by_file=Profile(url="https://f.test", token=TokenSource(file=str(tmp_path / "token"))),
        by_command=Profile(url="https://c.test", token=TokenSource(command=("echo", SECRET))),
    )

    printed = [run("context", "list", "-o", output).output for output in ("table", "json", "ndjson", "name")]
    printed += [run("context", "show", name).output for name in ("by_env", "by_file", "by_command")]
    assert SECRET not in "".join(printed)
    assert "command echo" in printed[-1]


@pytest.fixture
def reached(monkeypatch):
    """Where commands would go: (arguments, **environment) to a Target."""
    found = []

    class NoServer(Exception):  # noqa: N818
        pass

    class Listener:
        def __init__(self, target):
            found.append(target)
            raise NoServer

    monkeypatch.setattr("everwhen.cli.client.Api", Listener)

    def call(*arguments, typed=None, **env):
        found.clear()
        result = CliRunner().invoke(main, arguments, env=env, input=typed)
        assert found, (arguments, result.output, result.exception)
        return found[0]

    return call


@pytest.mark.parametrize("words", [("-c", "dev", "task", "list"), ("task", "list", "-c", "dev")])
def test_the_command_line_names_one_and_that_beats_the_environment(reached, words):
    have(current="prod", prod=PROD, dev=DEV)

    found = reached(*words, DEV_TOKEN="d", EVERWHEN_URL="https://other.test", EVERWHEN_TOKEN="t", EVERWHEN_TENANT="x")

    assert (found.url, found.token, found.tenant, found.context) == ("https://dev.test", "d", "acme-dev", "dev")


def test_the_environment_names_one_and_overrides_parts_of_it(reached):
    have(current="prod", prod=PROD, dev=DEV)

    assert reached("task", "list", EVERWHEN_CONTEXT="dev", DEV_TOKEN="d").token == "d"
    found = reached("task", "list", EVERWHEN_CONTEXT="dev", EVERWHEN_TOKEN="t", EVERWHEN_TENANT="other")
    assert (found.url, found.token, found.tenant) == ("https://dev.test", "t", "other")


def test_options_beat_everything(reached):
    have(prod=PROD)

    found = reached("task", "list", "-c", "prod", "--tenant", "other", PROD_TOKEN="p")
    assert (found.tenant, found.token, found.is_named) == ("other", "p", True)


def test_the_one_in_use_then_the_only_one_is_gone_to(reached):
    have(current="dev", prod=PROD, dev=DEV)
    assert reached("task", "list", DEV_TOKEN="d").context == "dev"
    have(prod=PROD)
    assert reached("task", "list", PROD_TOKEN="p").context == "prod"


def test_a_folder_with_a_server_of_its_own_comes_before_the_one_in_use(reached):
    have(current="prod", prod=PROD)
    Path(".everwhen").mkdir()
    Path(".everwhen/client.json").write_text(json.dumps({"url": "http://here", "token": "l", "tenant": "demo"}))

    assert reached("task", "list").url == "http://here"
    assert reached("-c", "prod", "task", "list", PROD_TOKEN="p").url == "https://prod.test"


def test_without_contexts_everything_is_as_it_was(reached):
    found = reached("task", "list", EVERWHEN_TOKEN="t")

    assert (found.url, found.token, found.tenant, found.context) == ("http://127.0.0.1:8484", "t", None, None)


def test_of_several_with_none_in_use_one_has_to_be_named_where_nobody_can_be_asked(reached):
    have(prod=PROD, dev=DEV)

    result = run("task", "list", exit_code=2)
    assert "name a context with -c" in result.stderr
    assert "dev, prod" in result.stderr
    assert reached("task", "list", EVERWHEN_URL="https://ci.test").context is None


def test_of_several_a_person_is_asked(reached, monkeypatch):
    have(prod=PROD, dev=DEV)
    monkeypatch.setattr("everwhen.cli.contexts.can_ask", lambda: True)

    assert reached("task", "list", typed="prod\n", PROD_TOKEN="p").context == "prod"


def test_a_context_that_there_is_not_is_told_with_those_there_are():
    have(prod=PROD)

    assert "there are prod" in run("-c", "pord", "task", "list", exit_code=2).stderr


def test_a_contexts_token_goes_to_no_other_server(reached):
    have(prod=PROD)

    assert reached("task", "list", "--url", "https://elsewhere.test", PROD_TOKEN="p").token is None
    assert reached("task", "list", PROD_TOKEN="p", EVERWHEN_URL="https://elsewhere.test").token is None
    assert reached("task", "list", "--url", "https://prod.test/", PROD_TOKEN="p").token == "p"


def test_a_token_is_read_of_a_file_or_a_command(reached, tmp_path):
    (tmp_path / "token").write_text(f"{SECRET}\n")
    count = tmp_path / "count"
    count.touch()
    command = ("sh", "-c", f"echo x >> {count}; echo {SECRET}")
    have(
        by_file=Profile(url="https://f.test", token=TokenSource(file=str(tmp_path / "token"))),
        by_command=Profile(url="https://c.test", token=TokenSource(command=command)),
        without=Profile(url="https://w.test"),
    )

    assert reached("-c", "by_file", "task", "list").token == SECRET
    assert reached("-c", "by_command", "task", "list").token == SECRET
    assert reached("-c", "without", "task", "list").token is None
    assert count.read_text() == "x\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (TokenSource(env="PROD_TOKEN"), "no token in its variable PROD_TOKEN"),
        (TokenSource(file="/nonexistent/token"), "cannot be read: No such file"),
        (TokenSource(command=("/nonexistent/tool", SECRET)), "cannot be run: No such file"),
        (TokenSource(command=("sh", "-c", f"echo {SECRET}; exit 3")), "failed with exit code 3"),
        (TokenSource(command=("true", SECRET)), "no token in its command true"),
        (TokenSource(command=("printf", "\\377")), "printed what is no token"),
    ],
)
def test_a_token_that_is_not_where_it_should_be_is_told_in_one_line(source, said):
    have(prod=Profile(url="https://prod.test", token=source))

    result = run("task", "list", exit_code=4)
    assert said in result.stderr
    assert SECRET not in result.output


def test_in_a_protected_context_what_destroys_needs_the_tenants_name(shell, monkeypatch):
    monkeypatch.setenv("SHELL_TOKEN", shell.tokens["admin"])
    profile = Profile(url=shell.url, tenant="acme", token=TokenSource(env="SHELL_TOKEN"), protected=True)
    have(prod=profile)
    shell("calendar", "create", "de", "--definition", "{}")

    for words in ((), ("--yes",), ("--tenant", "acme"), ("--yes", "-o", "json")):
        assert "--tenant acme" in run("-c", "prod", "calendar", "delete", "de", *words, exit_code=2).stderr
    assert shell("calendar", "list", "-o", "name").stdout == "de\n"
    run("-c", "prod", "calendar", "delete", "de", "--yes", "--tenant", "acme")
    assert shell("calendar", "list", "-o", "name").stdout == ""
