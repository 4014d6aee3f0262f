# pyright: reportOptionalMemberAccess=false
"""Every operation that takes JSON, with every hostile body: none passes, and each answer is a problem with a code.

The bodies are raw bytes, since what they are about is lost as soon as a client has encoded them. Which operations there
are says the document. What a body may hold at its places is for test_hostile_values.py.
"""

import gzip
import itertools
import json
import zlib

import pytest

from tests.contracts.test_hostile_values import BODIES, OPERATIONS, furnished  # noqa: F401  # a fixture
from tests.people import app_on, client_of, token_of

LIMIT = 1 << 20
JSON = "application/json"
DEEP = 33
YAML_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{c}: &{c} [{','.join(['*' + p] * 9)}]" for p, c in itertools.pairwise("abcdefghi")
)

TEXTS = {
    # not JSON at all
    "spaces": "   ",
    "open object": "{",
    "closed object": "}",
    "open list": "[",
    "open text": '"',
    "no value": '{"a":}',
    "trailing comma": '{"a": 1,}',
    "trailing comma in a list": '{"a": [1,]}',
    "comment": '{"a": 1} // x',
    "block comment": '/* x */ {"a": 1}',
    "single quotes": "{'a': 1}",
    "no quotes": "{a: 1}",
    "hexadecimal": '{"a": 0x10}',
    "leading zero": '{"a": 01}',
    "plus": '{"a": +1}',
    "no digit before the point": '{"a": .5}',
    "no digit after the point": '{"a": 5.}',
    "half a word": '{"a": tru}',
    "capital word": '{"a": True}',
    "undefined": '{"a": undefined}',
    "two documents": "{}{}",
    "two lines": "{}\n{}",
    "document and rest": "{} x",
    "a form": "name=x&task=y",
    "XML": "<a/>",
    "entity bomb": '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><a>&d;</a>',
    "YAML": "name: x",
    "YAML bomb": YAML_BOMB,
    "YAML tag": "!!python/object/apply:os.system ['true']",
    "TOML": 'a = "b"',
    "cut in a word": '{"name": "x", "task": "rep',
    "cut in an escape": '{"name": "\\u00',
    "bad escape": '{"a": "\\x41"}',
    "raw control character": '{"a": "\x01"}',
    "raw newline in a text": '{"a": "x\ny"}',
    "raw NUL": '{"a": "\x00"}',
    "byte order mark": '\ufeff{"name": "x"}',
    # keys
    "a key twice": '{"name": "x", "name": "y"}',
    "a key twice, once escaped": '{"name": "x", "n\\u0061me": "y"}',
    "a key twice, inside": '{"input": {"a": 1, "a": 2}}',
    "a key twice in a list": '{"nodes": [{"id": "a", "id": "b"}]}',
    "the same value twice": '{"name": "x", "name": "x"}',
    "an empty key twice": '{"": 1, "": 2}',
    "too many keys": json.dumps({f"k{n}": n for n in range(1_001)}),
    "too many keys inside": json.dumps({"input": {f"k{n}": n for n in range(1_001)}}),
    # numbers
    "NaN": '{"priority": NaN}',
    "Infinity": '{"priority": Infinity}',
    "-Infinity": '{"priority": -Infinity}',
    "NaN inside": '{"input": {"a": [NaN]}}',
    "1e400": '{"priority": 1e400}',
    "-1e400": '{"priority": -1e400}',
    "1E999999": '{"input": 1E999999}',
    "2^63": f'{{"priority": {2**63}}}',
    "-2^63 - 1": f'{{"priority": {-(2**63) - 1}}}',
    "2^64": f'{{"input": {2**64}}}',
    "a hundred digits": '{"input": ' + "9" * 100 + "}",
    "half a million digits": '{"input": ' + "9" * 500_000 + "}",
    "a long fraction": '{"input": 1e' + "9" * 1_000 + "}",
    # characters
    "escaped NUL": '{"name": "\\u0000"}',
    "escaped NUL in a key": '{"\\u0000": 1}',
    "NUL inside": '{"input": ["a\\u0000b"]}',
    "high surrogate": '{"name": "\\ud800"}',
    "low surrogate": '{"name": "\\udc00"}',
    "swapped pair": '{"name": "\\udc00\\ud800"}',
    "surrogate in a key": '{"\\ud800": 1}',
    "surrogate before a letter": '{"input": "\\ud83dx"}',
    "surrogate at the end": '{"input": "x\\udbff"}',
    # depth and size
    "lists too deep": "[" * DEEP + "]" * DEEP,
    "objects too deep": '{"a":' * DEEP + "1" + "}" * DEEP,
    "input too deep": '{"input": ' + "[" * DEEP + "]" * DEEP + "}",
    "100,000 lists": "[" * 100_000 + "]" * 100_000,
    "100,000 objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "100,000 open lists": "[" * 100_000,
    "mixed and deep": '[{"a":' * 20_000 + "1" + "}]" * 20_000,
    "a long text": json.dumps({"name": "x" * LIMIT}),
    "a long key": json.dumps({"x" * LIMIT: 1}),
    "a long space": " " * LIMIT + "{}",
    "many zeros": json.dumps([0] * (LIMIT // 2)),
    # what it may not be
    "null": "null",
    "true": "true",
    "a number": "5",
    "a text": '"x"',
    "a list": "[]",
    "a list of objects": "[{}]",
    "a list in a list": "[[]]",
}
GOOD = b'{"name": "x"}'
HEAVY, HEAVY_FOR_EACH = 15_000, 8
RAW = {
    "UTF-16 with a mark": '{"name": "x"}'.encode("utf-16"),
    "UTF-16": '{"name": "x"}'.encode("utf-16-le"),
    "UTF-16 the other way": '{"name": "x"}'.encode("utf-16-be"),
    "UTF-32": '{"name": "x"}'.encode("utf-32"),
    "Latin-1": '{"name": "ä"}'.encode("latin-1"),
    "overlong": b'{"name": "\xc0\xaf"}',
    "overlong NUL": b'{"name": "\xc0\x80"}',
    "encoded surrogate": b'{"name": "\xed\xa0\x80"}',
    "beyond Unicode": b'{"name": "\xf5\x80\x80\x80"}',
    "cut character": b'{"name": "\xe2\x82',
    "0xff": b'\xff{"name": "x"}',
    "bytes": bytes(range(256)),
    "gzip": gzip.compress(GOOD),
    "zlib": zlib.compress(GOOD),
    "gzip bomb": gzip.compress(b" " * 50_000_000 + GOOD),
    "zip": b"PK\x03\x04" + bytes(100),
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07builtins\x94.",
}
HEADERS = {
    "no type": {},
    "text/plain": {"Content-Type": "text/plain"},
    "text/json": {"Content-Type": "text/json"},
    "application/xml": {"Content-Type": "application/xml"},
    "application/yaml": {"Content-Type": "application/yaml"},
    "a form's type": {"Content-Type": "application/x-www-form-urlencoded"},
    "multipart": {"Content-Type": "multipart/form-data; boundary=x"},
    "JSON 5": {"Content-Type": "application/json5"},
    "two types": {"Content-Type": "application/json, text/plain"},
    "an empty type": {"Content-Type": ""},
    "charset utf-16": {"Content-Type": f"{JSON}; charset=utf-16"},
    "charset utf-7": {"Content-Type": f"{JSON}; charset=utf-7"},
    "charset latin-1": {"Content-Type": f"{JSON}; charset=iso-8859-1"},
    "charset in quotes": {"Content-Type": f'{JSON}; charset="utf-32"'},
    "encoding gzip": {"Content-Type": JSON, "Content-Encoding": "gzip"},
    "encoding br": {"Content-Type": JSON, "Content-Encoding": "br"},
    "encoding deflate": {"Content-Type": JSON, "Content-Encoding": "deflate"},
    "two encodings": {"Content-Type": JSON, "Content-Encoding": "identity, gzip"},
}
NOT_YOURS = (
    "tenant_id",
    "tenant",
    "state",
    "lease_token",
    "epoch",
    "id",
    "uid",
    "run_id",
    "revision",
    "version_id",
    "created_at",
    "created_by",
    "updated_at",
    "role",
    "is_admin",
    "permissions",
    "__proto__",
    "constructor",
    "Name",
    " name",
    "",
    "decided_until",
    "next_at",
    "virtual_time",
    "secret_hash",
)
BODIES_OF_BYTES = {
    **{name: (text.encode("utf-8", "surrogatepass"), {"Content-Type": JSON}) for name, text in TEXTS.items()},
    **{name: (raw, {"Content-Type": JSON}) for name, raw in RAW.items()},
    **{name: (GOOD, headers) for name, headers in HEADERS.items()},
    "gzip bomb, announced": (RAW["gzip bomb"], {"Content-Type": JSON, "Content-Encoding": "gzip"}),
}
TAKING_JSON = {
    name: (method, path)
    for name, (method, path, operation) in OPERATIONS.items()
    if JSON in operation.get("requestBody", {}).get("content", {})
}
KEYS = map(str, itertools.count())


@pytest.fixture
async def client(database, furnished):  # noqa: F811  # the fixture
    async with client_of(app_on(database), token_of("platform", "admin")) as opened:
        yield opened


def path_of(name, template, things):
    return template.format(**things | ({"name": "report"} if "/tasks" in template else {}))


def wrong(answer):
    """What is wrong with an answer to something hostile."""
    if not 400 <= answer.status_code < 500:
        return f"{answer.status_code} {answer.text[:100]}"
    if answer.headers.get("content-type") != "application/problem+json" or not answer.json().get("code"):
        return f"no problem: {answer.text[:100]}"
    return "" if len(answer.content) < 30_000 else "a long answer"


def test_there_are_a_hundred_hostile_bodies_and_all_operations():
    assert len(BODIES_OF_BYTES) + len(NOT_YOURS) >= 130
    assert len(TAKING_JSON) > 50


@pytest.mark.parametrize("name", TAKING_JSON)
async def test_no_hostile_body_passes(client, furnished, name):  # noqa: F811  # the fixture
    method, template = TAKING_JSON[name]
    path, found = path_of(name, template, furnished), {}
    is_optional = not OPERATIONS[name][2]["requestBody"].get("required")
    takes_heavy = list(TAKING_JSON).index(name) % HEAVY_FOR_EACH == 0
    for kind, (content, headers) in BODIES_OF_BYTES.items():
        if (kind == "null" and is_optional) or (len(content) > HEAVY and not takes_heavy):
            continue  # null is how JSON says nothing; all routes read a body by the same code
        given = {"Idempotency-Key": next(KEYS), **headers}
        found[kind] = wrong(await client.request(method, path, content=content, headers=given))

    assert {kind: text for kind, text in found.items() if text} == {}


@pytest.mark.parametrize("name", TAKING_JSON)
async def test_nobody_writes_what_is_not_his_to_write(client, furnished, name):  # noqa: F811  # the fixture
    method, template = TAKING_JSON[name]
    path, found = path_of(name, template, furnished), {}
    for field in NOT_YOURS:
        if field in BODIES[name]:
            continue
        body = {**BODIES[name], field: "00000000-0000-0000-0000-000000000001"}
        answer = await client.request(method, path, json=body, headers={"Idempotency-Key": next(KEYS)})
        found[field] = wrong(answer)

    assert {field: text for field, text in found.items() if text} == {}


@pytest.mark.parametrize("name", ["create_task", "request_run", "create_workflow"])
async def test_a_body_without_end_is_read_up_to_its_limit_and_no_further(client, furnished, name):  # noqa: F811
    method, template = TAKING_JSON[name]
    sent, chunk = 0, b" " * 65_536

    async def endless():
        nonlocal sent
        while sent < 1 << 30:
            sent += len(chunk)
            yield chunk

    headers = {"Content-Type": JSON, "Content-Length": "2", "Idempotency-Key": next(KEYS)}
    answer = await client.request(method, path_of(name, template, furnished), content=endless(), headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (413, "body.too_large")
    assert sent <= LIMIT + 2 * len(chunk)
