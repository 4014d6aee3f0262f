"""Reads what a channel is given: a configuration by its model, and secrets by their names. Nothing given is quoted."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from everwhen.egress.targets import TargetRefused
from everwhen.errors import FieldError, InvalidInput

CODE = "channel.configuration"


class Configuration(BaseModel):
    """The fields of a kind; others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


Model = TypeVar("Model", bound=Configuration)


def read(model: type[Model], configuration: Mapping[str, Any]) -> Model:
    """Return the configuration as its model; raise InvalidInput that points at every field that is wrong."""
    try:
        return model.model_validate(dict(configuration))
    except ValidationError as error:
        fields = tuple(_field(found["loc"], found["msg"]) for found in error.errors(include_input=False))
        raise InvalidInput(f"{fields[0].pointer}: {fields[0].detail}", code=CODE, errors=fields) from None


def stored(configuration: Configuration) -> dict[str, Any]:
    """Return its stored form: JSON, without what was left out."""
    return configuration.model_dump(mode="json", exclude_none=True)


def secret(secrets: Mapping[str, str], name: str) -> str:
    """Return a secret that the kind needs; raise InvalidInput."""
    if not secrets.get(name):
        raise wrong_secret(name, "This secret is needed.")
    return secrets[name]


def wrong_secret(name: str, detail: str) -> InvalidInput:
    """Blame a secret, without saying what it is."""
    return InvalidInput.at(f"/secrets/{name}", detail, code=CODE)


def wrong_field(name: str, detail: str | TargetRefused) -> InvalidInput:
    """Blame a field of the configuration."""
    return InvalidInput.at(f"/configuration/{name}", f"{str(detail)[:1].upper()}{str(detail)[1:]}.", code=CODE)


def _field(location: Sequence[str | int], message: str) -> FieldError:
    steps = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in location)
    return FieldError(code=CODE, pointer=f"/configuration{steps}", detail=message.removeprefix("Value error, "))
