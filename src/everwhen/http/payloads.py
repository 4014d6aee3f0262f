"""Payloads on the wire: what runs were given, what they returned, what their errors say.

They are shown to who has the permission and are null for everybody else, and the object that they belong to says so in
`withheld`. A model marks its fields; whether they may be seen is known by the request, and nobody may until the
dependency that grants access has said otherwise. So a route that forgets about payloads shows none.
"""

import functools
from contextvars import ContextVar
from typing import Annotated, Any, Final, Self, cast

from pydantic import BaseModel, Field, JsonValue, model_validator


class _Mark:
    """Marks a field as a payload."""


_MARK: Final = _Mark()
_shown: ContextVar[bool] = ContextVar("everwhen.payloads_shown", default=False)

PayloadValue = Annotated[JsonValue, _MARK]
PayloadText = Annotated[str | None, _MARK]


class WithPayloads(BaseModel):
    """The base of models that have payloads: fields of the types above."""

    withheld: bool = Field(
        default=False, description="True: its payloads are null here because the token may not see them."
    )

    @model_validator(mode="after")
    def _withhold(self) -> Self:
        if not payloads_shown():
            self.withheld = True
            for name in _payloads_of(type(self)):
                setattr(self, name, None)
        return self


def show_payloads(shown: bool) -> None:  # noqa: FBT001  # says what it sets
    """Say whether the request at hand may see payloads."""
    _shown.set(shown)


def payloads_shown() -> bool:
    """Tell whether the request at hand may see payloads."""
    return _shown.get()


def without_payloads(value: Any) -> Any:
    """Return a model, or a list or an object of models, as somebody is answered who may see no payloads."""
    if isinstance(value, BaseModel):
        fields = {name: without_payloads(getattr(value, name)) for name in type(value).model_fields}
        if isinstance(value, WithPayloads):
            fields |= dict.fromkeys(_payloads_of(type(value))) | {"withheld": True}
        return value.model_copy(update=fields)
    if isinstance(value, list):
        return [without_payloads(each) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: without_payloads(each) for name, each in cast("dict[Any, Any]", value).items()}
    return value


@functools.cache
def _payloads_of(model: type[BaseModel]) -> tuple[str, ...]:
    def marked(metadata: list[Any]) -> bool:
        return any(isinstance(each, _Mark) for each in metadata)

    return tuple(name for name, field in model.model_fields.items() if marked(field.metadata))
