"""What a tenant's queue is called in a broker.

A queue's name is whatever a tenant likes: dots, stars, blanks, letters of any script. In a broker such characters are
part of a grammar (`*` and `>` match subjects of others) or of a pattern that rights are written in. So a name passes as
it is only when it is made of harmless characters, marked `n-`; any other becomes the digits of its bytes, marked `x-`,
or of its digest where that would be too long, marked `h-`. The marks keep the three apart, so that no name can be
chosen that is spelt like another one's. The tenant comes first, by the digits of its id, which have one length.
"""

import hashlib
import re
from typing import Final
from uuid import UUID

MOST_PLAIN: Final = 60
MOST_CODED_BYTES: Final = 30

_PLAIN: Final = re.compile(r"[a-z0-9_-]{1,60}")


def queue_word(queue: str) -> str:
    """Return the one word that stands for a queue's name; two names never have the same."""
    if _PLAIN.fullmatch(queue):
        return f"n-{queue}"
    coded = queue.encode("utf-8", "surrogatepass")
    if len(coded) <= MOST_CODED_BYTES:
        return f"x-{coded.hex()}"
    return f"h-{hashlib.blake2b(coded, digest_size=24).hexdigest()}"


def subject(prefix: str, tenant_id: UUID, queue: str) -> str:
    """Return where notices of this tenant's queue are published: prefix, tenant, queue, between dots."""
    return f"{prefix}.{tenant_id.hex}.{queue_word(queue)}"


def consumer(tenant_id: UUID, queue: str) -> str:
    """Return the same without a dot, for what a broker does not allow one in."""
    return f"{tenant_id.hex}-{queue_word(queue)}"
