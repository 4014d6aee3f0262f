"""What alerts are made of in this installation: its kinds of channels, its keys, its texts."""

from collections.abc import Callable, Mapping
from uuid import UUID

from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.delivering.courier import Courier, Post
from everwhen.alerts.message import Message, Rendered
from everwhen.alerts.model import Sealer
from everwhen.alerts.service import Kit
from everwhen.alerts.signing import Signer
from everwhen.alerts.texts.service import render_for
from everwhen.postgres.pool import Database


def make_kit(kinds: Mapping[str, ChannelKind], sealer: Sealer, *, secret: str) -> Kit:
    """Make what channels are managed with. From the installation's secret the keys of codes and links are derived."""
    return Kit(kinds=kinds, sealer=sealer, signer=Signer.derived_from(secret))


def make_courier(database: Database, kit: Kit, *, public_url: str, jitter: Callable[[], float]) -> Courier:
    """Make what sends."""

    async def render(tenant_id: UUID, message: Message) -> Rendered:
        return await render_for(database, tenant_id, message)

    post = Post(kinds=kit.kinds, sealer=kit.sealer, render=render, signer=kit.signer, public_url=public_url)
    return Courier(database=database, post=post, jitter=jitter)
