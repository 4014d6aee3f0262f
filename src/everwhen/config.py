"""Settings: the environment, then `everwhen.toml`, then the default. One frozen object, made once, passed by hand.

Every setting is documented in docs/reference/settings.md (a test keeps the two equal). An unknown key is refused with
the nearest known one, so a misspelt setting cannot be silently ignored.
"""

import difflib
import os
import tomllib
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from everwhen.errors import ConfigurationError
from everwhen.http.issuers import IssuerSettings

PREFIX: Final = "EVERWHEN_"
FILE: Final = "everwhen.toml"

# Read by other parts of the project, each where it is documented, before or apart from these settings.
OTHER_VARIABLES: Final = frozenset({
    "EVERWHEN_CONCURRENCY",
    "EVERWHEN_CONTEXT",
    "EVERWHEN_FAILPOINT",
    "EVERWHEN_FAILPOINTS_ALLOWED",
    "EVERWHEN_FAILPOINT_LOG",
    "EVERWHEN_LABELS",
    "EVERWHEN_BROKER_URL",
    "EVERWHEN_POSTGRES_OS_USER",
    "EVERWHEN_QUEUES",
    "EVERWHEN_RESOURCES",
    "EVERWHEN_TENANT",
    "EVERWHEN_TEST_PG_BIN",
    "EVERWHEN_TOKEN",
    "EVERWHEN_URL",
    "EVERWHEN_PROBE",
    "EVERWHEN_WORKER_VERSION",
    "EVERWHEN_VIA",
})  # fmt: skip

RoleName = Literal[
    "api",
    "scheduler",
    "conductor",
    "gatekeeper",
    "attendant",
    "reaper",
    "caller",
    "observer",
    "operator",
    "porter",
    "relay",
    "sentinel",
    "sweeper",
    "notifier",
    "sealer",
    "notary",
]
ALL_ROLES: Final[tuple[RoleName, ...]] = (
    "api",
    "scheduler",
    "conductor",
    "gatekeeper",
    "attendant",
    "reaper",
    "caller",
    "observer",
    "operator",
    "porter",
    "relay",
    "sentinel",
    "sweeper",
    "notifier",
    "sealer",
    "notary",
)


def _listed(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


_Item = TypeVar("_Item")
Listed = Annotated[tuple[_Item, ...], NoDecode, BeforeValidator(_listed)]
"""A list that the environment separates by commas."""

Network = Annotated[IPv4Network | IPv6Network, PlainValidator(lambda value: ip_network(str(value)))]
Port = Annotated[int, Field(ge=1, le=65535)]


class Settings(BaseSettings):
    """Everything that an operator can set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, toml_file=FILE, frozen=True, extra="forbid")

    database_url: SecretStr | None = Field(
        None, description="The application's login on an external PostgreSQL; unset: `everwhen up` runs its own."
    )
    owner_database_url: SecretStr | None = Field(
        None, description="The schema owner's login, for `everwhen migrate` only."
    )
    data_dir: Path | None = Field(None, description="Where `everwhen up` keeps its database; default ./.everwhen.")
    host: str = Field("127.0.0.1", description="The address that the API listens on.")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8484, description="Its port; 0 lets the kernel choose.")
    roles: tuple[RoleName, ...] = Field(ALL_ROLES, description="Which roles `everwhen serve` runs.")
    jwt_secret: SecretStr | None = Field(
        None, min_length=32, description="The HS256 key of tokens, at least 32 bytes; `up` makes and keeps one."
    )
    token_seconds_max: Annotated[float, Field(ge=60, le=31_536_000)] = Field(
        86_400.0, description="The longest life of a token that the API accepts."
    )
    issuers: tuple[IssuerSettings, ...] = Field(
        (), description="Who else issues tokens, such as an OpenID provider: a JSON list, or `[[issuers]]` in the file."
    )
    service_token_seconds_max: Annotated[float, Field(ge=60, le=31_536_000)] = Field(
        2_592_000.0, description="The longest life of a service token between two renewals."
    )
    session_seconds_max: Annotated[float, Field(ge=60, le=604_800)] = Field(
        43_200.0, description="How long a session of the console lasts at most."
    )
    session_idle_seconds: Annotated[float, Field(ge=60, le=86_400)] = Field(
        1_800.0, description="How long it lasts unused."
    )
    trusted_proxies: Listed[Network] = Field(
        (),
        description="Networks of proxies that are believed about whom a request is from (X-Forwarded-For), by commas.",
    )
    rate_address: Annotated[int, Field(ge=0, le=10**9)] = Field(
        60_000, description="Requests to the control API a minute from one address; 0: no limit."
    )
    rate_failed: Annotated[int, Field(ge=0, le=10**9)] = Field(
        30, description="Wrong credentials a minute from one address; 0: no limit."
    )
    rate_tenant: Annotated[int, Field(ge=0, le=10**9)] = Field(
        30_000,
        description="Requests to the control API a minute of a tenant without a limit of its own; 0: no limit.",
    )
    rate_token: Annotated[int, Field(ge=0, le=10**9)] = Field(
        15_000, description="Requests to the control API a minute of one subject; 0: no limit."
    )
    rate_worker: Annotated[int, Field(ge=0, le=10**9)] = Field(
        600_000, description="Requests a minute of a tenant's workers, each with many runs in it; 0: no limit."
    )
    pool_size: Annotated[int, Field(ge=1, le=200)] = Field(8, description="Connections of each of the two pools.")
    plan_ahead_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        30.0, description="How long before it is due a run is planned."
    )
    scheduler_batch: Annotated[int, Field(ge=1, le=5000)] = Field(500, description="Schedules planned in one step.")
    reaper_batch: Annotated[int, Field(ge=1, le=5000)] = Field(500, description="Leases reaped in one step.")
    operator_batch: Annotated[int, Field(ge=1, le=5000)] = Field(500, description="Items of an operation in one step.")
    sentinel_overdue_seconds: Annotated[float, Field(ge=5, le=86_400)] = Field(
        60.0, description="How late planning, reaping and expiring may be before the sentinel opens a finding."
    )
    sentinel_wait_seconds: Annotated[float, Field(ge=5, le=86_400)] = Field(
        60.0, description="How long a due run may wait for a worker before the sentinel opens a finding."
    )
    observer_kept_days: Annotated[int, Field(ge=1, le=4000)] = Field(
        400,
        description="How long it is known what blocked a line; why an older run waited is told from its events alone.",
    )
    conductor_batch: Annotated[int, Field(ge=1, le=1000)] = Field(
        50, description="Workflows' runs started, and looked at, in one step."
    )
    nats_url: SecretStr | None = Field(
        None, description="Servers of NATS for queues that it delivers, by commas: tls://user:password@host:port."
    )
    nats_replicas: Annotated[int, Field(ge=1, le=5)] = Field(
        3, description="How many of its servers hold each message; 1 for a single server."
    )
    nats_monitor_url: str | None = Field(
        None, description="Where `everwhen doctor` asks a NATS server what it writes to its disk when."
    )
    rabbitmq_url: SecretStr | None = Field(
        None, description="Nodes of RabbitMQ for queues that it delivers, by commas: amqps://user:password@host:port/."
    )
    broker_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,32}$")] = Field(
        "EVERWHEN", description="What names in brokers begin with; two installations at one broker need two."
    )
    broker_ca_file: Path | None = Field(
        None,
        description="Certificate authorities that brokers are checked by, as PEM; unset: the system's.",
    )
    broker_cert_file: Path | None = Field(None, description="A certificate to show to brokers, as PEM.")
    broker_key_file: Path | None = Field(None, description="Its key, unless it is in the same file.")
    relay_window: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1_000, description="Runs of one line that a broker is told of ahead of those who take them, at most."
    )
    relay_batch: Annotated[int, Field(ge=1, le=5000)] = Field(500, description="Notices sent in one step.")
    relay_again_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        60.0, description="After how long a run that was announced and not taken is announced again, at first."
    )
    lease_seconds_max: Annotated[float, Field(ge=1, le=3600)] = Field(
        300.0, description="The longest lease a worker may ask for."
    )
    claim_wait_seconds_max: Annotated[float, Field(ge=0, le=300)] = Field(
        30.0, description="The longest time that a claim waits for work."
    )
    body_bytes_max: Annotated[int, Field(ge=1024, le=2**30)] = Field(
        1_048_576, description="The largest body of a control request; a worker's batch may be eight times as large."
    )
    payload_url: str | None = Field(
        None,
        description="Where payloads are kept: s3://bucket/prefix, or a folder; unset: payloads in the data directory.",
    )
    payload_bytes_max: Annotated[int, Field(ge=1024, le=2**40)] = Field(
        268_435_456, description="The most bytes of one payload."
    )
    payload_tenant_bytes_max: Annotated[int, Field(ge=1024, le=2**50)] = Field(
        10_737_418_240, description="The most bytes of all payloads of a tenant together."
    )
    payload_uploads_max: Annotated[int, Field(ge=1, le=1000)] = Field(
        16, description="Uploads that one process lets in at once; each takes about 24 MiB of memory."
    )
    log_attempt_bytes_max: Annotated[int, Field(ge=1024, le=2**30)] = Field(
        16_777_216, description="How many bytes of what an attempt prints are kept; then its log ends with a notice."
    )
    log_tenant_bytes_max: Annotated[int, Field(ge=1024, le=2**50)] = Field(
        10_737_418_240, description="The most bytes of all logs of a tenant together; then logs end with a notice."
    )
    log_retention_days: Annotated[float, Field(gt=0, le=3650)] = Field(
        30.0, description="How long logs of attempts are kept."
    )
    public_url: str | None = Field(
        None, description="Where people reach this installation: what links in alerts begin with; unset: host and port."
    )
    alert_retention_days: Annotated[float, Field(ge=1, le=3650)] = Field(
        90.0, description="How long alerts that have ended are kept, with their tries."
    )
    alert_retry_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        3600.0, description="How long after its first try an alert is tried again, at most; then it is dead."
    )
    alert_retry_first_seconds: Annotated[float, Field(ge=0.1, le=600)] = Field(
        5.0, description="The pause after the first failed try of an alert; each further one is twice as long."
    )
    alert_retry_most_seconds: Annotated[float, Field(ge=0.1, le=3600)] = Field(
        600.0, description="The longest pause between two tries of an alert."
    )
    alert_lease_seconds: Annotated[float, Field(ge=2, le=3600)] = Field(
        120.0,
        description="After how long a try that nobody ended is taken for abandoned; a third of it is for sending.",
    )
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        None, description="A port that serves /metrics without a token, for any role; unset: none does."
    )
    sealing_keys: SecretStr | None = Field(
        None, description="Keys that seal tenants' secrets, `name:key` by commas, the first one seals; `up` keeps one."
    )
    audit_anchor_url: str | None = Field(
        None,
        description="Where the ends of the audit's chains are noted: s3://bucket/prefix, or a folder; unset: nowhere.",
    )
    audit_anchor_webhook: SecretStr | None = Field(
        None, description="A URL that is told the same by POST; unset: nobody is."
    )
    audit_anchor_key: SecretStr | None = Field(
        None, description="The key that signs it, `name:key`, of `everwhen audit key`; unset: nothing is signed."
    )
    audit_anchor_seconds: Annotated[float, Field(ge=1, le=86_400)] = Field(
        60.0, description="How often a chain that goes on is noted."
    )
    audit_public_keys: Listed[str] = Field(
        (), description="Keys of which one has to have signed what `audit verify` believes, `name:key` by commas."
    )
    egress_allow: Listed[Network] = Field(
        (), description="Networks that are not public and that alerts may reach all the same, by commas."
    )
    egress_ports: Listed[Port] = Field((443, 8443), description="Ports that alerts may reach over HTTPS, by commas.")
    egress_mail_ports: Listed[Port] = Field(
        (25, 465, 587, 2525), description="Ports at which alerts may reach mail servers, by commas."
    )
    egress_plain_http: bool = Field(False, description="Whether webhooks may go over HTTP without TLS.")
    egress_ca_file: Path | None = Field(
        None, description="Certificate authorities that alerts trust beside the system's, as PEM."
    )
    egress_per_tenant: Annotated[int, Field(ge=1, le=200)] = Field(
        8, description="Connections for alerts that one tenant may have open at once."
    )
    smtp_url: SecretStr | None = Field(
        None, description="The mail server of channels that name none: smtp[s]://user:password@host[:port][?tls=none]."
    )
    smtp_from: str | None = Field(None, description="The sender of mails by that server.")
    smtp_plain: bool = Field(False, description="Whether channels may name a mail server without TLS.")
    slack_hosts: Listed[str] = Field(
        ("hooks.slack.com", "hooks.slack-gov.com"), description="Hosts that take alerts as Slack does, by commas."
    )
    metrics_host: str = Field("127.0.0.1", description="The address of that port.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least severe line logged.")

    @classmethod
    def settings_customise_sources(  # noqa: PLR0917  # the library's signature
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  # as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments beat the environment, which beats the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(**overrides: Any) -> Settings:
    """Read the settings; raise ConfigurationError that names what is wrong and the nearest right key."""
    known = set(Settings.model_fields)
    unknown = {name for name in os.environ if name.startswith(PREFIX)} - OTHER_VARIABLES
    _refuse_unknown({name.removeprefix(PREFIX).lower() for name in unknown}, known, "the environment")
    try:
        if Path(FILE).is_file():
            _refuse_unknown(set(tomllib.loads(Path(FILE).read_text())), known, FILE)
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "settings"
        raise ConfigurationError(f"{where}: {first['msg']}; set {PREFIX}{where.upper()} or {FILE}") from error
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{FILE} cannot be read: {error}") from error


def _refuse_unknown(found: set[str], known: set[str], where: str) -> None:
    for name in sorted(found - known):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"unknown setting {name} in {where}{hint}")
