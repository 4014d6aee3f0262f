"""Signed anchors: what the key has signed is believed, and nothing else is."""

import asyncio
import json
from uuid import UUID

import pytest
from click.testing import CliRunner

from everwhen.audit.lines import head_line, read_anchors
from everwhen.audit.signing import new_entry, read_public_keys, read_signer
from everwhen.cli import main
from everwhen.core.audit_checking import Check, Kind
from everwhen.errors import ConfigurationError
from tests.audit.test_sealer import seal_all, tell
from tests.core.test_audit_checking import LINKS, TENANT, head_of
from tests.factories import make_tenant

SIGNER = read_signer(new_entry("notary"))
KEYS = read_public_keys([SIGNER.public_entry])
SIGNED = head_line(head_of(LINKS[6]), signer=SIGNER)


def found(line, keys=KEYS):
    noted = read_anchors([(1, line.encode())], source="note", keys=keys)
    check = Check(TENANT, noted.get(TENANT, ()))
    for each in LINKS:
        check.take(each)
    report = check.end(head_of(LINKS[-1]))
    return [(each.kind, each.seq) for each in report.findings], report.anchored


def test_what_the_key_has_signed_is_believed():
    assert found(SIGNED) == ([], 7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 6),
        ("hash", "00" * 32),
        ("epoch", str(UUID(int=9))),
        ("key", "other"),
        ("key", []),
        ("signature", "AAAA"),
        ("signature", None),
        ("signature", "!"),
    ],
)
def test_what_was_changed_of_an_anchor_is_not_believed(field, value):
    changed = json.dumps({**json.loads(SIGNED), field: value})

    kinds, anchored = found(changed)

    assert [kind for kind, _ in kinds] == [Kind.UNSIGNED]
    assert anchored == 0


def test_what_another_key_or_none_has_signed_is_not_believed():
    other = read_signer(new_entry("notary"))

    assert found(head_line(head_of(LINKS[6]), signer=other)) == ([(Kind.UNSIGNED, 7)], 0)
    assert found(head_line(head_of(LINKS[6]))) == ([(Kind.UNSIGNED, 7)], 0)
    assert found(head_line(head_of(LINKS[6])), keys=None) == ([], 7)


def test_the_anchor_of_one_chain_is_none_of_another():
    moved = json.dumps({**json.loads(SIGNED), "tenant": str(UUID(int=9))})

    [anchor] = read_anchors([(1, moved.encode())], source="note", keys=KEYS)[UUID(int=9)]

    assert anchor.fault == "its signature by notary does not hold"


@pytest.mark.parametrize("text", ["", "notary", "Notary:AAAA", "notary:AAAA", "notary:!", "notary:" + "A" * 400])
def test_what_is_no_key_is_refused_and_not_shown(text):
    with pytest.raises(ConfigurationError) as raised:
        read_signer(text)
    with pytest.raises(ConfigurationError):
        read_public_keys([text])

    assert "AAAA" not in str(raised.value)


def test_a_signer_shows_its_name_only():
    entry = new_entry("notary")

    assert repr(read_signer(entry)) == "Signer(notary)"
    with pytest.raises(ConfigurationError, match="two keys"):
        read_public_keys([SIGNER.public_entry, SIGNER.public_entry])
    with pytest.raises(ConfigurationError, match="lower-case"):
        new_entry("A b")


@pytest.fixture
def folder(server, work_database, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVERWHEN_DATABASE_URL", server.app(work_database))
    return tmp_path


async def test_an_anchor_is_signed_appended_and_believed(database, folder):
    tenant = await make_tenant(database)

    async def audit(*words, exit_code=0):
        result = await asyncio.to_thread(lambda: CliRunner().invoke(main, ["audit", *words]))
        assert result.exit_code == exit_code, (words, result.output, result.exception)
        return result.stdout

    (folder / "key").write_text(await audit("key", "notary"))
    public = (await audit("key", "--key-file", "key")).strip()
    for _ in range(2):
        await tell(database, tenant, 3)
        await seal_all(database)
        await audit("anchor", "--tenant", tenant.name, "--key-file", "key", "--to", "anchors")
    assert len((folder / "anchors").read_text().splitlines()) == 2

    verify = ("verify", "--tenant", tenant.name, "--anchor", "anchors", "--public-key")
    assert "6 links, the last is 6, anchored up to 6" in await audit(*verify, public)
    other = read_signer(new_entry("notary")).public_entry
    assert "unsigned  at 3: anchors:1: its signature by notary does not hold" in await audit(
        *verify, other, exit_code=10
    )
    await audit("verify", "--public-key", public, exit_code=2)
    await audit("key", exit_code=2)
