"""Writes docs/reference/openapi.json, reasons.md and roles.md: `python -m tests.contracts.openapi_snapshot`."""

import asyncio
import json
from pathlib import Path

from fastapi import FastAPI

import everwhen
from everwhen.http.app import create_app
from everwhen.http.auth import Authenticator
from everwhen.http.plane import ControlPlane
from tests.contracts import reasons_page, roles_page
from tests.people import ROUTERS, SECRET

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


def app_for_its_document() -> FastAPI:
    """The application without a database; it serves nothing."""
    plane = ControlPlane(database=None, authenticator=Authenticator(SECRET), find_tenant=None)
    return create_app(plane, routers=ROUTERS)


def rendered() -> str:
    """The document as it is kept."""
    return json.dumps(app_for_its_document().openapi(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def lack_examples() -> bool:
    """Whether there is an operation that nobody has called for the document yet."""
    kept = json.loads((Path(everwhen.__file__).parent / "http" / "examples.json").read_text("utf-8"))
    paths = app_for_its_document().openapi()["paths"]
    return {each["operationId"] for methods in paths.values() for each in methods.values()} != set(kept)


if __name__ == "__main__":
    if lack_examples():
        from tests.contracts import openapi_examples

        asyncio.run(openapi_examples.record())
    FILE.write_text(rendered(), encoding="utf-8")
    reasons_page.write()
    roles_page.write(app_for_its_document())
