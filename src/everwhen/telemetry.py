"""Logs: one JSON line for each change of state, none for a poll.

Event names, each in the past tense and with the fields that identify its subject:

    server.started, server.stopped        url, roles
    role.database_away                    role, error, retry_seconds
    schedule.put_off                      schedule_uid, error
    lease.put_off                         run_id, error
    calendar.followed, tz.rezoned         how many schedules were looked at, and how many moved
    request.failed                        request_id, method, path

A line is one event whatever it carries: control characters are escaped, so a tenant's text cannot forge another line.
"""

import logging
import sys
from typing import Final

import structlog

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure_logs(level: str) -> None:
    """Write events as JSON lines to standard error, from this level up; libraries' own lines likewise."""
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*processors, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=structlog.processors.JSONRenderer(),
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *processors],
        )
    )
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # The access log is the edge's business; a line for each request would be a line for each poll.
    logging.getLogger("uvicorn.access").disabled = True
