"""What alerts are made of in this installation: its kinds of channels, its keys, its texts."""

import os
import socket
from collections.abc import Callable, Mapping

from everwhen.alerts.channels.protocol import ChannelKind
from everwhen.alerts.delivering.courier import Courier, Post, Times
from everwhen.alerts.model import Sealer
from everwhen.alerts.service import Kit
from everwhen.alerts.signing import Signer
from everwhen.alerts.texts.service import Scribe
from everwhen.postgres.pool import Database


def make_kit(kinds: Mapping[str, ChannelKind], sealer: Sealer, *, secret: str) -> Kit:
    """Make what channels are managed with. From the installation's secret the keys of codes and links are derived."""
    return Kit(kinds=kinds, sealer=sealer, signer=Signer.derived_from(secret))


def make_courier(
    database: Database, kit: Kit, *, public_url: str, jitter: Callable[[], float], times: Times | None = None
) -> Courier:
    """Make what sends, under a name that tells an operator where it runs."""
    post = Post(
        kinds=kit.kinds, sealer=kit.sealer, render=Scribe(database).write, signer=kit.signer, public_url=public_url
    )
    name = f"{socket.gethostname()}-{os.getpid()}"
    return Courier(database=database, post=post, jitter=jitter, name=name, times=times or Times())
