"""The commands of the guide to alerts are commands: every one is read as the command line would read it."""

import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest

from everwhen.cli import main

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "alerts.md"
BLOCK = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """The words of each `everwhen …` in a block, pipes and settings before it left out."""
    for line in text.replace("\\\n", " ").replace("|\n", "| ").splitlines():
        reader = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|")
        reader.whitespace_split = True
        for is_pipe, words in groupby(reader, key=lambda word: word == "|"):
            kept = [word for word in words if not re.fullmatch(r"[A-Z_]+=\S+", word)]
            if not is_pipe and kept[:1] == ["everwhen"]:
                yield kept[1:]


COMMANDS = [words for block in BLOCK.finditer(GUIDE.read_text()) for words in commands(block["text"])]


def read(words: list[str]) -> str:
    """Find the command that the words name and let it read the rest; nothing is done. Returns its name."""
    command: click.Command = main
    while isinstance(command, click.Group):
        with click.Context(command) as context:
            name, words = words[0], words[1:]
            found = command.get_command(context, name)
            assert found is not None, f"there is no command {name}"
            command = found
    command.make_context(command.name, list(words))
    return command.name or ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_of_the_guide_is_one(words: list[str]) -> None:
    assert read(words)


def test_there_are_commands_to_read() -> None:
    assert len(COMMANDS) >= 12


def test_a_misspelt_one_is_found_out() -> None:
    with pytest.raises(click.UsageError):
        read(["alert", "channel", "create", "ops", "--kind", "webhook", "--confg", "{}"])
