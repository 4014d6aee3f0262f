"""Writes docs/reference/openapi.json, reasons.md and roles.md: `python -m tests.contracts.openapi_snapshot`."""

import json
from pathlib import Path

from fastapi import FastAPI

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


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
    reasons_page.write()
    roles_page.write(app_for_its_document())
