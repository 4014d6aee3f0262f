"""Specs to the wire models that the API itself takes: the same fields, the same limits, the same words."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from everwhen.errors import InvalidInput
from everwhen.http.problems import field_errors

Model = TypeVar("Model", bound=BaseModel)


def read_spec(model: type[Model], spec: Mapping[str, Any]) -> Model:
    """Read a spec; raise InvalidInput with a pointer to each fault."""
    try:
        return model.model_validate(dict(spec))
    except ValidationError as error:
        errors = field_errors(error.errors(), spec, model=model)
        raise InvalidInput(errors[0].detail, errors=errors) from error


def plain(value: Any) -> Any:
    """Return JSON data as strict readers take it: what does not fit into 64 bits is a float, as it was sent."""
    match value:
        case dict():
            return {key: plain(each) for key, each in cast("dict[str, Any]", value).items()}
        case list():
            return [plain(each) for each in cast("list[Any]", value)]
        case bool():
            return value
        case int() if not -(2**63) <= value < 2**63:
            return float(value)
        case _:
            return value
