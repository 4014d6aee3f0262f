"""`everwhen alert`: where alerts go, who wants which, in which words, and what was sent."""

from __future__ import annotations

from typing import Any, Final

import click

from everwhen.cli.alert_template import template
from everwhen.cli.client import Api, failure_of, force_option, with_api
from everwhen.cli.listing import filtered, given, json_option, list_pages, paged
from everwhen.cli.output import Columns, confirm, show_list, show_one
from everwhen.cli.secrets import ask

CHANNEL_COLUMNS: Final[Columns] = {
    "NAME": "name",
    "KIND": "kind",
    "STATE": "state",
    "RECEIVERS": lambda channel: len(channel["receivers"]),
    "FAILURES": lambda channel: channel["health"]["failures"],
    "LAST SUCCESS": lambda channel: channel["health"]["last_success_at"],
    "WHY": "state_reason",
}
SUBSCRIPTION_COLUMNS: Final[Columns] = {
    "NAME": "name",
    "SCOPE": lambda found: found["scope"] if found["target"] is None else f"{found['scope']}/{found['target']}",
    "KINDS": lambda found: ",".join(found["kinds"]),
    "AFTER": "after_failures",
    "CHANNELS": lambda found: ",".join(found["channels"]),
    "ENABLED": "enabled",
}
DELIVERY_COLUMNS: Final[Columns] = {
    "ID": "id",
    "CHANNEL": "channel",
    "RECIPIENT": lambda found: found["recipient"] or None,
    "STATE": "state",
    "TELLS": "total",
    "TRIES": "tries",
    "DUE": "due_at",
    "RESPONSE": "response",
}
PREVIEW_COLUMNS: Final[Columns] = {
    "AT": "at",
    "KIND": "kind",
    "SUBJECT": "subject",
    "IN A ROW": "in_a_row",
    "RUN": "run_id",
}


@click.group(short_help="Channels, subscriptions and deliveries of alerts.")
def alert() -> None:
    """Tell people what happened: where to, of what, and what came of it."""


alert.add_command(template)


@alert.group(short_help="Where alerts go.")
def channel() -> None:
    """Channels: email, webhooks, Slack."""


@channel.command("list")
@filtered("state:unverified")
@paged
@with_api
def list_channels(*, api: Api, output: str, **paging: Any) -> None:
    """List channels, and how they do."""
    path = api.tenant_path("alerts", "channels")
    list_pages(api, path, kind="AlertChannelList", output=output, columns=CHANNEL_COLUMNS, paging=paging)


@channel.command("get")
@click.argument("name")
@with_api
def get_channel(*, api: Api, output: str, name: str) -> None:
    """Show a channel, whom it reaches and its health."""
    show_one(api.call("GET", api.tenant_path("alerts", "channels", name)), kind="AlertChannelList", output=output)


@channel.command("create")
@click.argument("name")
@click.option("--kind", required=True, help="email, webhook or slack.")
@click.option("--config", "configuration", required=True, help="Where it sends to, as JSON; @file reads a file.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret to ask for; from stdin in a pipe.")
@click.option("--window", type=float, help="Seconds after a message until the next. [default: 30]")
@click.option("--messages-an-hour", type=int, help="At most so many to each receiver. [default: no limit]")
@click.option(
    "--quiet", help='Quiet hours as JSON, such as {"zone": "Europe/Berlin", "begins": "22:00", "ends": "07:00"}.'
)
@with_api
def create_channel(*, api: Api, output: str, name: str, secrets: tuple[str, ...], **options: Any) -> None:
    """Define a channel. Test it next: nothing is sent before it is verified."""
    body = given(
        name=name,
        kind=options["kind"],
        configuration=json_option(options["configuration"], option="--config"),
        secrets={secret: ask(secret) for secret in secrets},
        window_seconds=options["window"],
        messages_an_hour=options["messages_an_hour"],
        quiet_hours=json_option(options["quiet"], option="--quiet"),
    )
    made = api.call("POST", api.tenant_path("alerts", "channels"), body=body)
    show_one(made, kind="AlertChannelList", output=output)


@channel.command("update")
@click.argument("name")
@click.option("--config", "configuration", help="Where it sends to, as JSON; @file reads a file.")
@click.option("--secret", "secrets", multiple=True, metavar="NAME", help="A secret to ask for anew; the others stay.")
@click.option("--window", type=float, help="Seconds after a message until the next.")
@click.option("--messages-an-hour", type=click.IntRange(min=0), help="At most so many to each receiver; 0: no limit.")
@click.option("--quiet", help="Quiet hours as JSON; null: none.")
@force_option
@with_api
def update_channel(*, api: Api, output: str, name: str, secrets: tuple[str, ...], force: bool, **options: Any) -> None:
    """Change a channel; what is not named stays. Where it sends to has to be verified anew when it changes."""
    changes = given(
        configuration=json_option(options["configuration"], option="--config"),
        window_seconds=options["window"],
        messages_an_hour=options["messages_an_hour"],
    )
    if changes.get("messages_an_hour") == 0:
        changes["messages_an_hour"] = None
    if options["quiet"] is not None:
        changes["quiet_hours"] = json_option(options["quiet"], option="--quiet")
    changes["secrets"] = {secret: ask(secret) for secret in secrets}
    kept = ("kind", "configuration", "window_seconds", "messages_an_hour", "quiet_hours")
    made = _replace(api, api.tenant_path("alerts", "channels", name), kept, changes, force=force)
    show_one(made, kind="AlertChannelList", output=output)


def _replace(api: Api, path: str, kept: tuple[str, ...], changes: dict[str, Any], *, force: bool) -> Any:
    """Put what there is, with these changes, in its place, unless somebody has changed it meanwhile."""
    answer = api.send("GET", path)
    if not answer.is_success:
        raise failure_of(answer)
    now = answer.json()
    body = {name: now[name] for name in kept} | changes
    return api.call("PUT", path, body=body, match="*" if force else answer.headers["ETag"])


@channel.command("resubscribe")
@click.argument("name")
@click.option("--to", "recipient", required=True, help="The address.")
@with_api
def resubscribe(*, api: Api, output: str, name: str, recipient: str) -> None:
    """Send again to somebody who had unsubscribed, and has changed his mind."""
    made = api.call("POST", api.tenant_path("alerts", "channels", name, "resubscribe"), body={"recipient": recipient})
    show_one(made, kind="AlertChannelList", output=output)


@channel.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete_channel(*, api: Api, output: str, name: str, yes: bool, force: bool) -> None:
    """Delete a channel that no subscription sends to."""
    confirm(f"Delete the channel {name}?", yes=yes)
    api.change("DELETE", api.tenant_path("alerts", "channels", name), force=force)
    if output == "name":
        click.echo(name)


@channel.command("test")
@click.argument("name")
@click.option("--to", "recipient", help="One of its addresses. [default: all]")
@with_api
def test_channel(*, api: Api, output: str, name: str, recipient: str | None) -> None:
    """Send a test message; its arrival, or the code in it, verifies the channel."""
    made = api.call("POST", api.tenant_path("alerts", "channels", name, "test"), body=given(recipient=recipient))
    rows = [{"id": delivery} for delivery in made["deliveries"]]
    show_list(rows, kind="AlertDeliveryList", output=output, columns={"DELIVERY": "id"}, name="id")


@channel.command("verify")
@click.argument("name")
@click.option("--code", required=True, help="What the test message said.")
@with_api
def verify_channel(*, api: Api, output: str, name: str, code: str) -> None:
    """Confirm an address by the code that it was sent."""
    made = api.call("POST", api.tenant_path("alerts", "channels", name, "verify"), body={"code": code})
    show_one(made, kind="AlertChannelList", output=output)


@channel.command("disable")
@click.argument("name")
@click.option("--reason", help="Why.")
@with_api
def disable_channel(*, api: Api, output: str, name: str, reason: str | None) -> None:
    """Send nothing more to a channel."""
    made = api.call("POST", api.tenant_path("alerts", "channels", name, "disable"), body=given(reason=reason))
    show_one(made, kind="AlertChannelList", output=output)


@channel.command("enable")
@click.argument("name")
@with_api
def enable_channel(*, api: Api, output: str, name: str) -> None:
    """Send to a channel again."""
    made = api.call("POST", api.tenant_path("alerts", "channels", name, "enable"))
    show_one(made, kind="AlertChannelList", output=output)


@alert.group(short_help="Who wants to hear of what.")
def subscription() -> None:
    """Subscriptions."""


@subscription.command("list")
@filtered("channel:on-call")
@paged
@with_api
def list_subscriptions(*, api: Api, output: str, **paging: Any) -> None:
    """List subscriptions."""
    path = api.tenant_path("alerts", "subscriptions")
    list_pages(api, path, kind="AlertSubscriptionList", output=output, columns=SUBSCRIPTION_COLUMNS, paging=paging)


@subscription.command("get")
@click.argument("name")
@with_api
def get_subscription(*, api: Api, output: str, name: str) -> None:
    """Show a subscription."""
    found = api.call("GET", api.tenant_path("alerts", "subscriptions", name))
    show_one(found, kind="AlertSubscriptionList", output=output)


def _settings(*, required: bool) -> Any:
    def add(function: Any) -> Any:
        for option in (
            click.option("--pierce/--no-pierce", "pierces", default=None, help="Let errors through quiet hours."),
            click.option("--after", "after_failures", type=int, help="Only the n-th failure in a row. [default: 1]"),
            click.option("--filter", "filter_text", help="On what happened, such as reason:retry.exhausted."),
            click.option("--tag", help="Of what has this tag, or whose schedule, task or workflow has it."),
            click.option("--workflow", help="Of this workflow only."),
            click.option("--task", help="Of this task only."),
            click.option("--schedule", help="Of this schedule only."),
            click.option("--channel", "channels", multiple=True, required=required, help="Where to; may be repeated."),
            click.option(
                "--kind", "kinds", multiple=True, required=required, help="Such as run.dead; may be repeated."
            ),
        ):
            function = option(function)
        return function

    return add


def _body(**options: Any) -> dict[str, Any]:
    scopes = [(name, options[name]) for name in ("schedule", "task", "workflow", "tag") if options[name]]
    if len(scopes) > 1:
        raise click.UsageError("Only one of --schedule, --task, --workflow and --tag can be what it is about.")
    scope, target = scopes[0] if scopes else (None, None)
    return given(
        kinds=list(options["kinds"]) or None,
        channels=list(options["channels"]) or None,
        scope=scope,
        target=target,
        filter=options["filter_text"],
        after_failures=options["after_failures"],
        pierces=options["pierces"],
    )


@subscription.command("update")
@click.argument("name")
@_settings(required=False)
@click.option("--of-the-tenant", is_flag=True, help="Of everything, and no longer of one thing only.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether anybody is told.")
@force_option
@with_api
def update_subscription(
    *, api: Api, output: str, name: str, of_the_tenant: bool, enabled: bool | None, force: bool, **options: Any
) -> None:
    """Change a subscription; what is not named stays. Kinds and channels are replaced as a whole."""
    changes = _body(**options) | given(enabled=enabled)
    if of_the_tenant:
        changes |= {"scope": "tenant", "target": None}
    kept = ("kinds", "channels", "scope", "target", "filter", "after_failures", "pierces", "enabled")
    made = _replace(api, api.tenant_path("alerts", "subscriptions", name), kept, changes, force=force)
    show_one(made, kind="AlertSubscriptionList", output=output)


@subscription.command("create")
@click.argument("name")
@_settings(required=True)
@with_api
def create_subscription(*, api: Api, output: str, name: str, **options: Any) -> None:
    """Subscribe to what happens in the tenant, or to one schedule, task, workflow or tag."""
    made = api.call("POST", api.tenant_path("alerts", "subscriptions"), body={"name": name, **_body(**options)})
    show_one(made, kind="AlertSubscriptionList", output=output)


@subscription.command("preview")
@_settings(required=True)
@with_api
def preview_subscription(*, api: Api, output: str, **options: Any) -> None:
    """Say what such a subscription would have told of the last 24 hours."""
    found = api.call("POST", api.tenant_path("alerts", "subscriptions", "preview"), body=_body(**options))
    if output == "table":
        click.echo(f"{found['matched']} of {found['looked_at']} would have been told", err=True)
    show_list(found["items"], kind="AlertPreviewList", output=output, columns=PREVIEW_COLUMNS, name="at")


@subscription.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@force_option
@with_api
def delete_subscription(*, api: Api, output: str, name: str, yes: bool, force: bool) -> None:
    """Tell nobody any longer."""
    confirm(f"Delete the subscription {name}?", yes=yes)
    api.change("DELETE", api.tenant_path("alerts", "subscriptions", name), force=force)
    if output == "name":
        click.echo(name)


@alert.group(short_help="What was sent, and what came of it.")
def delivery() -> None:
    """Deliveries: each message to each receiver, with its tries."""


@delivery.command("list")
@filtered("state:dead channel:ops since:1d")
@paged
@with_api
def list_deliveries(*, api: Api, output: str, **paging: Any) -> None:
    """List deliveries, the newest first."""
    path = api.tenant_path("alerts", "deliveries")
    list_pages(
        api,
        path,
        kind="AlertDeliveryList",
        output=output,
        columns=DELIVERY_COLUMNS,
        paging=paging,
        name="id",
    )


@delivery.command("get")
@click.argument("delivery_id")
@with_api
def get_delivery(*, api: Api, output: str, delivery_id: str) -> None:
    """Show a delivery with its tries and what the receiver said."""
    found = api.call("GET", api.tenant_path("alerts", "deliveries", delivery_id))
    show_one(found, kind="AlertDeliveryList", output=output, name="id")


@delivery.command("resend")
@click.argument("delivery_id")
@with_api
def resend_delivery(*, api: Api, output: str, delivery_id: str) -> None:
    """Send once more: a dead one under its own id, a delivered one as a new message."""
    made = api.call("POST", api.tenant_path("alerts", "deliveries", delivery_id, "resend"))
    show_one(made, kind="AlertDeliveryList", output=output, name="id")
