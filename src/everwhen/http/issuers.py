"""Who else may issue tokens: the settings of an issuer, such as a company's OpenID provider.

Only what stands here is believed: the issuer's exact name, its audience, its one algorithm, and where its keys are.
"""

from datetime import timedelta
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from everwhen.http.jwt_form import Rules
from everwhen.http.roles import Role

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

Algorithm = Literal["RS256", "ES256", "EdDSA"]
ClaimName = Annotated[str, Field(min_length=1, max_length=200)]


class IssuerSettings(BaseModel):
    """One issuer of tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$", description="Leads its subjects: `name:sub`.")]
    issuer: Annotated[str, Field(min_length=1, max_length=500, description="The claim `iss`, to the letter.")]
    audience: Annotated[str, Field(min_length=1, max_length=500, description="What `aud` has to be, or to contain.")]
    algorithm: Algorithm = Field("RS256", description="The one algorithm of its signatures.")
    jwks_url: str | None = Field(None, description="Where its keys are; unset: found by discovery at the issuer.")
    types: tuple[Literal["JWT", "at+jwt", ""], ...] = Field(
        ("JWT", "at+jwt"), min_length=1, description="Which `typ` its tokens have; an empty one: none at all."
    )
    rights: Literal["membership", "claims"] = Field(
        "membership", description="Whether members' lists say who may do what, or the token itself."
    )
    subject_claim: ClaimName = Field("sub", description="The claim that names the person.")
    tenant_claim: ClaimName | None = Field(
        None, description="The claim that names the tenant: checked against membership, or by its id with `claims`."
    )
    roles_claim: ClaimName = Field("roles", description="With `claims`: the claim that lists roles.")
    role_map: dict[str, Role] = Field(
        default_factory=dict[str, Role],
        description="With `claims`: what its names for roles mean; others: nothing.",
    )
    token_seconds_max: Annotated[float, Field(ge=60, le=86_400)] = Field(3_600.0, description="Its longest token.")
    leeway_seconds: Annotated[float, Field(ge=0, le=30)] = Field(30.0, description="How far clocks may differ.")
    keys_seconds: Annotated[float, Field(ge=1, le=3_600)] = Field(
        300.0, description="How long keys are believed: a retired one is refused by then."
    )
    stale_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        3_600.0, description="How long they are believed while the issuer does not answer."
    )
    allow_http_loopback: bool = Field(False, description="Keys by http from this machine, for tests.")

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        if self.jwks_url is not None:
            self.check_url(self.jwks_url)
        else:
            self.check_url(self.discovery_url)
        if self.rights == "claims" and not (self.tenant_claim and self.role_map):
            raise ValueError("rights by claims need tenant_claim and role_map")
        if Role.PLATFORM in self.role_map.values():
            raise ValueError("no claim makes somebody the platform")
        return self

    @property
    def discovery_url(self) -> str:
        """Where an OpenID provider says where its keys are."""
        return self.issuer.rstrip("/") + DISCOVERY_PATH

    @property
    def rules(self) -> Rules:
        """What its tokens have to say."""
        return Rules(
            issuer=self.issuer,
            audience=self.audience,
            most_lifetime=timedelta(seconds=self.token_seconds_max),
            leeway=timedelta(seconds=self.leeway_seconds),
            subject_claim=self.subject_claim,
        )

    def check_url(self, url: str) -> None:
        """Raise ValueError unless keys may come from there."""
        parts = urlsplit(url)
        loopback = self.allow_http_loopback and parts.scheme == "http" and parts.hostname in LOOPBACK
        if not parts.hostname or parts.username or parts.fragment or not (parts.scheme == "https" or loopback):
            raise ValueError(f"{url} is no https URL; keys come from nowhere else")
