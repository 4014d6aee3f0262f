"""What a webhook gets: strict JSON, in a full form and a thin one, as docs/reference/alert-payload.md says."""

from dataclasses import replace

import pytest

from everwhen.alerts.message import AlertKind
from everwhen.alerts.texts import render, sample, thin


def test_the_full_form_of_one():
    payload = render(sample("run.dead")).payload
    (occasion,) = payload["data"]["occasions"]

    assert (payload["type"], payload["version"], payload["timestamp"]) == ("run.dead", 1, "2026-11-30T01:34:12Z")
    assert payload["data"]["window"] is None
    assert payload["data"]["subject"].startswith("nightly-report: dead")
    assert occasion["nominal_at"] == "2026-11-30T01:30:00Z"
    assert occasion["zone"] == "Europe/Berlin"
    assert occasion["reason"] == "retry.exhausted"
    assert occasion["error"].startswith("SMTPAuthenticationError")
    assert occasion["tags"] == ["finance", "nightly"]


@pytest.mark.parametrize("kind", AlertKind)
def test_its_type_is_the_kind(kind):
    assert render(sample(kind.value)).payload["type"] == kind.value


def test_the_full_form_of_a_digest():
    payload = render(sample("digest")).payload

    assert payload["type"] == "alert.digest"
    assert payload["timestamp"] == "2026-11-30T01:35:00Z"
    assert payload["data"]["window"] == {"from": "2026-11-30T01:34:00Z", "to": "2026-11-30T01:35:00Z"}
    assert payload["data"]["total"] == 432
    assert payload["data"]["counts"][0] == {"kind": "run.dead", "count": 390}


def test_the_thin_form_has_ids_and_links_alone():
    payload = thin(render(sample("run.dead")).payload)

    assert payload == {
        "type": "run.dead",
        "version": 1,
        "timestamp": "2026-11-30T01:34:12Z",
        "data": {
            "delivery_id": "0193a6d1-99aa-7bbb-8ccc-ddddeeeeffff",
            "tenant": "acme",
            "total": 1,
            "occasions": [
                {
                    "occasion_id": "0193a6d1-aaaa-8bbb-8ccc-000000000001",
                    "kind": "run.dead",
                    "run_id": "0193a6d1-2f40-8c21-9a4e-3c5b7d9e1f20",
                    "link": "https://everwhen.example/t/acme/runs/0193a6d1-2f40-8c21-9a4e-3c5b7d9e1f20",
                }
            ],
        },
    }


def test_programs_get_texts_as_they_are_but_for_what_json_cannot_hold():
    message = sample("run.dead")
    occasion = replace(message.shown[0], error="\x1b[31m\u202e<b>\n\ud800\0")

    (told,) = render(replace(message, shown=(occasion,))).payload["data"]["occasions"]

    assert told["error"] == "\x1b[31m\u202e<b>\n\\ud800\\x00"


def test_what_is_long_is_cut():
    message = sample("run.dead")
    occasion = replace(message.shown[0], error="E" * 1_000_000, subject="S" * 5000, tags=("t" * 500,) * 50)

    (told,) = render(replace(message, shown=(occasion,))).payload["data"]["occasions"]

    assert (len(told["error"]), len(told["subject"]), len(told["tags"])) == (4000, 200, 20)


def test_the_same_message_makes_the_same_payload():
    assert render(sample("digest")) == render(sample("digest"))
