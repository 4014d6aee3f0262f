"""Asks for secrets."""

from __future__ import annotations

import sys

import click


def ask(name: str) -> str:
    """A secret is never an argument, where other users of the machine could read it."""
    if sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True, err=True))
    text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise click.UsageError(f"The secret {name} is missing: one a line on standard input.")
    return text
