"""The exception tree: what a caller can meet, and how each becomes an answer.

    EverwhenError
    ├── InvalidInput        422  a value that cannot be; `errors` point at the fields
    ├── NotFound            404  no such thing, or not yours: the two answers are the same
    ├── Conflict            409  it exists already, the state forbids it now, or the tenant has as much as it may have
    ├── Unauthenticated     401  no valid token
    ├── Forbidden           403  the token does not allow it
    ├── PreconditionFailed  412  it is not, or no longer, the revision that was named
    ├── PreconditionRequired 428 a change has to name the revision that it changes
    ├── TooLarge            413  the body is over its limit
    ├── UnsupportedMediaType 415 the body is not JSON
    ├── RateExceeded        429  too many requests; the same one may succeed a little later
    ├── Unavailable         503  the database or a part of it is away; try again
    └── ConfigurationError   –   the process cannot start as it is set up

An expected outcome (a lost lease, an empty queue) is a return value, never one of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One wrong field: a stable code, an RFC 6901 pointer to it, and what is wrong with it."""

    code: str
    pointer: str
    detail: str


class EverwhenError(Exception):
    """Something went wrong."""

    status = 500
    code = "internal"
    title = "Internal error"
    retryable = False
    retry_after = 1
    """In how many seconds the same request may succeed, where it may."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        code: str | None = None,
        errors: tuple[FieldError, ...] = (),
        told: Mapping[str, Any] | None = None,
    ) -> None:
        """`told` are further members of the problem, for programs."""
        super().__init__(detail or self.__doc__ or self.title)
        self.detail = detail or (self.__doc__ or self.title)
        self.code = code or type(self).code
        self.errors = errors
        self.told = dict(told or {})


class InvalidInput(EverwhenError):  # noqa: N818  # the tree reads as answers, not as accidents
    """A value is not acceptable."""

    status, code, title = 422, "input.invalid", "Invalid input"

    @classmethod
    def at(cls, pointer: str, detail: str, *, code: str = "input.invalid") -> "InvalidInput":
        """Blame one field."""
        return cls(detail, code=code, errors=(FieldError(code=code, pointer=pointer, detail=detail),))


class NotFound(EverwhenError):  # noqa: N818
    """There is no such thing."""

    status, code, title = 404, "not_found", "Not found"


class Conflict(EverwhenError):  # noqa: N818
    """The state of the thing does not allow it."""

    status, code, title = 409, "conflict", "Conflict"


class QuotaUsedUp(Conflict):
    """The tenant has as much as it may have."""


class InFlight(Conflict):
    """A request that would do the same is under way; the same request may succeed later."""

    retryable = True


class PreconditionFailed(EverwhenError):  # noqa: N818
    """It is not, or no longer, what the request was meant for."""

    status, code, title = 412, "precondition.failed", "Precondition failed"


class PreconditionRequired(EverwhenError):  # noqa: N818
    """A change has to name the revision that it changes."""

    status, code, title = 428, "precondition.required", "Precondition required"


class Unauthenticated(EverwhenError):  # noqa: N818
    """A valid bearer token is needed."""

    status, code, title = 401, "auth.required", "Authentication required"

    def __init__(self, *, known_as: object = None) -> None:
        """`known_as` is who the credential was of while it held; no answer tells."""
        super().__init__()
        self.known_as = known_as


class Forbidden(EverwhenError):  # noqa: N818
    """The token does not allow this."""

    status, code, title = 403, "auth.forbidden", "Forbidden"


class TooLarge(EverwhenError):  # noqa: N818
    """The request body is too large."""

    status, code, title = 413, "body.too_large", "Body too large"


class UnsupportedMediaType(EverwhenError):  # noqa: N818
    """The request body is of a kind that is not read here."""

    status, code, title = 415, "body.media_type", "Unsupported media type"


class RateExceeded(EverwhenError):  # noqa: N818
    """Too many requests."""

    status, code, title, retryable = 429, "rate.exceeded", "Too many requests", True

    def __init__(self, detail: str, *, told: Mapping[str, Any], retry_after: int) -> None:
        """`told` names the bucket."""
        super().__init__(detail, told=told)
        self.retry_after = retry_after


class Unavailable(EverwhenError):  # noqa: N818
    """A part of the service is away; the same request may succeed later."""

    status, code, title, retryable = 503, "unavailable", "Service unavailable", True


class ConfigurationError(EverwhenError):
    """The process cannot start as it is set up."""

    code, title = "configuration", "Configuration error"


def unknown_tenant() -> NotFound:
    """One error for "there is none" and "it is not yours": telling them apart would tell who the neighbours are."""
    return NotFound("There is no tenant of this name, or the token is not for it.", code="tenant.unknown")
