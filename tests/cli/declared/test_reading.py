"""Documents of files: what is read, and that every fault names its file, its line and what to do."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from everwhen.cli import main
from everwhen.cli.declared import reading
from everwhen.cli.declared.faults import Faulty
from everwhen.cli.declared.reading import read_documents

HEAD = "apiVersion: everwhen/v1\nkind: Task\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, text):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def faults(*paths):
    with pytest.raises(Faulty) as caught:
        read_documents(paths or [Path()])
    return [str(fault) for fault in caught.value.faults]


def test_a_folder_is_read_by_file_with_all_its_documents():
    write("b/two.yml", f"{HEAD}name: b\nspec: {{queue: q}}\n---\n{HEAD}name: c\nspec: {{}}\n")
    write("a.toml", 'apiVersion = "everwhen/v1"\nkind = "Schedule"\nname = "s"\n[spec.trigger]\nkind = "weekly"\n'
                    "times = [09:30:00]\nanchor = 2026-01-05\n")  # fmt: skip
    write("c.toml", '[[documents]]\napiVersion = "everwhen/v1"\nkind = "Task"\nname = "t"\nspec = {}\n')
    write("d.yaml", "# nothing yet\n")
    write(".git/x.yaml", "no document")
    write("b/.hidden.yaml", "no document")
    write("read.md", "no document")

    found = read_documents([Path()])

    assert [(str(each.file), each.line, each.key) for each in found] == [
        ("a.toml", None, ("Schedule", "s")),
        ("b/two.yml", 1, ("Task", "b")),
        ("b/two.yml", 6, ("Task", "c")),
        ("c.toml", None, ("Task", "t")),
    ]
    assert found[0].spec == {"trigger": {"kind": "weekly", "times": ["09:30:00"], "anchor": "2026-01-05"}}


def test_a_file_named_twice_is_read_once():
    file = write("a.yaml", f"{HEAD}name: a\nspec: {{}}\n")

    assert len(read_documents([file, Path(), file])) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD}name: a\nspec: {{}}\nlabels: {{}}\n",
         "5: /labels: there is no field 'labels': there are apiVersion, kind, name, spec"),
        (f"{HEAD}nmae: a\nspec: {{}}\n", "3: /nmae: there is no field 'nmae': did you mean name?"),
        ("kind: Task\nname: a\nspec: {}\n", "1: the field apiVersion is missing: add apiVersion: everwhen/v1"),
        (f"{HEAD}spec: {{}}\n", "1: the field name is missing"),
        ("apiVersion: v2\nkind: Task\nname: a\nspec: {}\n",
         "1: /apiVersion: it is everwhen/v1, the only version there is"),
        ("apiVersion: everwhen/v1\nkind: schedules\nname: a\nspec: {}\n",
         "2: /kind: there is no kind 'schedules': did you mean Schedule?"),
        ("apiVersion: everwhen/v1\nkind: CronJob\nname: a\nspec: {}\n",
         "2: /kind: there is no kind 'CronJob': there are Calendar, Queue, Task, Workflow, Schedule"),
        (f"{HEAD}name: 7\nspec: {{}}\n", "3: /name: a name is a text: put it in quotes"),
        (f"{HEAD}name: a\nspec: []\n", "4: /spec: the spec is a mapping of fields"),
        (f"{HEAD}name: a\nname: b\nspec: {{}}\n", "4: the key 'name' is given twice"),
        ("- a\n", "1: a document is a mapping of apiVersion, kind, name, spec"),
        (f"{HEAD}name: a\nspec: &x {{a: 1}}\nb: *x\n",
         "5: an alias is not read here: write out what it stands for"),
    ],
)  # fmt: skip
def test_a_fault_of_yaml_names_file_line_and_remedy(text, told):
    write("f.yaml", text)

    assert faults() == [f"f.yaml:{told}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('kind = "Task"\n', "f.toml: the field apiVersion is missing: add apiVersion: everwhen/v1"),
        ("a = 1\na = 2\n", "f.toml: it is no TOML: Cannot overwrite a value (at line 2, column 6)"),
        ("a = inf\n", "f.toml: inf is no number that JSON has"),
        ("a = nan\n", "f.toml: nan is no number that JSON has"),
        ("a = " + "[" * 31 + "]" * 31, "f.toml: it has more than 30 levels"),
        ("a = " + "[" * 9000 + "]" * 9000, "f.toml: it has more than 30 levels"),
        ("documents = 7", "f.toml: a document is a mapping of apiVersion, kind, name, spec"),
    ],
)
def test_a_fault_of_toml_names_file_and_remedy(text, told):
    write("f.toml", text)

    assert faults() == [told]


def test_all_faults_of_all_files_are_told_at_once():
    write("a.yaml", f"{HEAD}name: 7\nspec: {{}}\n---\n{HEAD}name: b\nspec: 1\n---\na: [\n")
    write("b.yaml", "a: \x01\n")
    Path("c.yaml").write_bytes(b"a: 1\nb: \xff\n")

    assert [told.rpartition(": ")[0] for told in faults()] == ["a.yaml:3: /name: a name is a text", "a.yaml:9: /spec",
                                                               "a.yaml:12", "b.yaml:1", "c.yaml:2"]  # fmt: skip


def test_a_thing_is_declared_once():
    write("a.yaml", f"{HEAD}name: a\nspec: {{}}\n")
    write("b.yaml", f"# again\n{HEAD}name: a\nspec: {{}}\n")

    assert faults() == ["b.yaml:4: /name: Task a is declared in a.yaml:1 already"]


def test_where_there_is_nothing_nothing_is_meant():
    assert faults() == [".: no .yaml, .yml or .toml file in there holds a document"]
    assert faults(Path("no.yaml")) == ["no.yaml: there is no such file or folder"]


def test_what_is_read_is_bounded(monkeypatch):
    write("a.yaml", f"{HEAD}name: a\nspec: {{}}\n")
    write("b.yaml", f"{HEAD}name: b\nspec: {{}}\n")
    for name, most in (("MOST_FILES", 1), ("MOST_BYTES", 70), ("MOST_DOCUMENTS", 1), ("MOST_FILE_BYTES", 10)):
        with monkeypatch.context() as patched:
            patched.setattr(reading, name, most)
            assert faults()
    assert len(read_documents([Path()])) == 2


def test_a_file_that_cannot_be_read_says_why():
    path = write("a.yaml", HEAD)
    path.unlink()
    os.mkfifo(path)

    assert faults() == [".: no .yaml, .yml or .toml file in there holds a document"]


def test_a_fault_within_a_spec_is_told_at_its_line_or_the_one_above():
    write("a.yaml", f"{HEAD}name: a\nspec:\n  retry:\n    max_attempts: 0\n")
    (document,) = read_documents([Path()])

    assert (
        str(document.fault("too few", pointer="/spec/retry/max_attempts"))
        == "a.yaml:6: /spec/retry/max_attempts: too few"
    )
    assert str(document.fault("missing", pointer="/spec/trigger/expr")) == "a.yaml:5: /spec/trigger/expr: missing"


# Bombs: what would take a parser for ever, or all memory ------------

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
BOMBS = {
    "laughs": LAUGHS,
    "itself": "a: &a\n  b: *a\n",
    "merged": "base: &b {x: 1}\nspec:\n  <<: *b\n",
    "deep": "[" * 100_000,
    "deep mappings": "".join(f"{' ' * n}a:\n" for n in range(2_000)),
    "wide": "spec: [" + "1," * 200_100 + "]\n",
    "many documents": "--- 1\n" * 20_100,
    "a large number": "spec: " + "9" * 200_000 + "\n",
    "a tag": "spec: !!python/object/apply:os.system [id]\n",
    "not text": "spec: \x00\n",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("command", "name"), [*(("apply", name) for name in BOMBS), ("diff", "laughs")])
def test_a_bomb_is_refused_in_a_line_that_names_the_file_and_before_anybody_is_asked(
    command, name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bomb.yaml").write_text(BOMBS[name])
    env = {"EVERWHEN_URL": "http://127.0.0.1:9", "EVERWHEN_TENANT": "acme", "EVERWHEN_TOKEN": "x"}

    result = CliRunner().invoke(main, [command, "-f", "bomb.yaml"], env=env)

    assert result.exit_code == 2, result.output[:500]
    first, *_ = result.stderr.splitlines()
    assert "bomb.yaml" in first
    assert len(result.stderr) < 10_000
