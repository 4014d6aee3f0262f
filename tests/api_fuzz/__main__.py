"""`make api-fuzz`: Schemathesis over every operation of the document, with a token of each role, on a real server.

    API_FUZZ_CASES=100 API_FUZZ_SEED=7 make api-fuzz

For each role: a tenant of its own that has one of everything, the API on a real PostgreSQL, and the `schemathesis`
command with its phases of examples, coverage and fuzzing. What may not be found: a server error, an answer that is not
as its schema says, a status, a header or a type of content that the document does not name, a method that is answered
without being there, and authentication that is not asked for. Exit code 0: nothing was found.

What a revocation does to the very token that is used ends a run early; those two operations are called last.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import uvicorn

from everwhen.http.roles import Role
from everwhen.postgres.pool import Database, PoolLimits
from tests.api_fuzz import NAMES
from tests.contracts.test_isolation import app_with_payloads, furnish
from tests.database import TestServer, run_server
from tests.people import token_of
from tests.system.fleet import free_port

CHECKS: Final = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth"
)
REVOKING: Final = ("create_revocation", "create_platform_revocation")
DOCUMENT: Final = Path("docs/reference/openapi.json")


async def serve(database: Database, port: int) -> None:
    """Serve the API until the thread's loop is stopped."""
    config = uvicorn.Config(app_with_payloads(database), host="127.0.0.1", port=port, log_level="critical")
    await uvicorn.Server(config).serve()


async def run_all(server: TestServer, cases: int, seed: int, roles: list[Role]) -> int:
    """Fuzz with every role in turn; return how many were not clean."""
    server.create("api_fuzz")
    port, failed = free_port(), []
    async with await Database.open(server.app("api_fuzz"), limits=PoolLimits(min_size=2, max_size=20)) as database:
        serving = asyncio.create_task(serve(database, port))
        for role in roles:
            tenant, things = await furnish(database, name=f"by-{role}")
            token = token_of(role, tenant_id=None if role is Role.PLATFORM else tenant.id)
            began = time.monotonic()
            codes = [
                await asyncio.to_thread(fuzz, port, token, things.names, cases=cases, seed=seed, revoking=revoking)
                for revoking in (False, True)
            ]
            sys.stdout.write(
                f"{role}: {'clean' if not any(codes) else 'NOT CLEAN'}, {time.monotonic() - began:.0f} s\n"
            )
            sys.stdout.flush()
            failed += [role] if any(codes) else []
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    return len(failed)


def fuzz(port: int, token: str, names: dict[str, str], *, cases: int, seed: int, revoking: bool) -> int:
    """Run Schemathesis; its output is ours."""
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", str(DOCUMENT), "--url", f"http://127.0.0.1:{port}",
        "-H", f"Authorization: Bearer {token}", "--checks", CHECKS, "--phases", "examples,coverage,fuzzing",
        "--max-examples", str(cases), "--seed", str(seed), "--continue-on-failure", "--request-timeout", "60",
        "--suppress-health-check", "all", "--warnings", "off", "--no-color",
    ]  # fmt: skip
    for operation in REVOKING:
        command += ["--include-operation-id" if revoking else "--exclude-operation-id", operation]
    environment = os.environ | {NAMES: json.dumps(names), "SCHEMATHESIS_HOOKS": "tests.api_fuzz.hooks"}
    return subprocess.run(command, env=environment, check=False, timeout=3600).returncode


def main() -> int:
    cases, seed = int(os.environ.get("API_FUZZ_CASES", "50")), int(os.environ.get("API_FUZZ_SEED", "1"))
    roles = [Role(name) for name in sys.argv[1:]] or list(Role)
    with run_server() as server:
        return min(asyncio.run(run_all(server, cases, seed, roles)), 1)


if __name__ == "__main__":
    sys.exit(main())
