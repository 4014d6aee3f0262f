"""CronJob manifests. The first is the example of Kubernetes' documentation; the others have the fields it documents."""

import json
from typing import Any

import pytest

from everwhen.core.overlap_json import parse_overlap
from everwhen.core.proofs import prove
from everwhen.core.triggers import FoldPolicy, GapPolicy
from everwhen.schedules.importers.entry import MOST_CHARACTERS, Options, Refusal
from everwhen.schedules.importers.kubernetes import parse_kubernetes
from everwhen.schedules.wire_catchup import CatchUpFields
from tests.schedules.importers.reading import AFTER, KEEP, entries, local_fires, refusal

HELLO = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: hello
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: hello
            image: busybox:1.28
            imagePullPolicy: IfNotPresent
            command:
            - /bin/sh
            - -c
            - date; echo Hello from the Kubernetes cluster
          restartPolicy: OnFailure
"""


def manifest(name="nightly", version="batch/v1", **spec):
    spec = {"schedule": "30 2 * * *", "timeZone": "Europe/Berlin", **spec}
    return {"apiVersion": version, "kind": "CronJob", "metadata": {"name": name, "namespace": "prod"}, "spec": spec}


def read(item, options=Options()):  # noqa: B008  # frozen
    return entries(parse_kubernetes, json.dumps(item), options)


def test_the_documented_example_is_read():
    [entry] = entries(parse_kubernetes, HELLO)

    assert (entry.name, entry.text, entry.stored.timezone) == ("default.hello", "* * * * *", "UTC")
    assert entry.input == {"namespace": "default", "cronjob": "hello"}
    assert "no timeZone" in entry.notes[0]
    assert prove(entry.source, entry.stored, after=AFTER).is_equal


def test_what_kubectl_lists_is_read_and_other_kinds_are_left_alone():
    items = [manifest("a"), {"apiVersion": "v1", "kind": "Service"}, manifest("b")]
    documents = [{"kind": "List", "items": items}, {"kind": "CronJobList", "items": [{**manifest("c"), "kind": None}]}]

    assert [entry.name for entry in read(documents[0])] == ["prod.a", "prod.b"]
    # The items of a typed list name no kind of their own.
    del documents[1]["items"][0]["kind"]
    assert [entry.name for entry in read(documents[1])] == ["prod.c"]


def test_several_documents_of_yaml_are_read():
    text = "\n---\n".join([HELLO, "apiVersion: v1\nkind: ConfigMap\n", HELLO.replace("hello", "bye"), ""])

    assert [entry.name for entry in entries(parse_kubernetes, text)] == ["default.hello", "default.bye"]


@pytest.mark.parametrize(
    ("policy", "overlap"),
    [
        (None, None),
        ("Allow", None),
        ("Forbid", {"policy": "buffer_latest"}),
        ("Replace", {"policy": "terminate_other"}),
    ],
)
def test_a_concurrency_policy_is_an_overlap_policy(policy, overlap):
    [entry] = read(manifest(concurrencyPolicy=policy))

    assert entry.overlap == overlap
    assert entry.notes == ()
    parse_overlap(entry.overlap)


@pytest.mark.parametrize(
    ("deadline", "rule"),
    [
        (None, {"policy": "coalesce"}),
        (200, {"policy": "coalesce", "window_seconds": 200}),
        (30, {"policy": "coalesce", "window_seconds": 30, "grace_seconds": 30}),
    ],
)
def test_of_what_was_missed_the_latest_starts_unless_it_is_too_old(deadline, rule):
    [entry] = read(manifest(startingDeadlineSeconds=deadline))

    on_resume = {key: value for key, value in rule.items() if key != "grace_seconds"}
    assert entry.catch_up == {**rule, "on_resume": on_resume}
    CatchUpFields.model_validate(entry.catch_up)


def test_only_what_has_no_place_here_is_noted():
    [entry] = read(manifest(concurrencyPolicy="Forbid", startingDeadlineSeconds=200))

    [note] = entry.notes
    assert note.startswith("startingDeadlineSeconds 200 does not end a run that waits")


def test_a_suspended_one_is_paused():
    assert [entry.paused for entry in read([manifest(suspend=True), manifest("b", suspend=False)])] == [
        "suspended in Kubernetes",
        None,
    ]


def test_by_default_a_nightly_run_is_neither_skipped_nor_doubled_and_the_proof_says_so():
    [entry] = read(manifest())
    found: Any = prove(entry.source, entry.stored, after=AFTER)

    assert (entry.stored.gap, entry.stored.fold) == (GapPolicy.GAP_END, FoldPolicy.FIRST)
    assert found.differences == 20
    assert [f"{(move.after or move.before).isoformat()} {move.kind}" for move in found.first[:2]] == [
        "2027-03-28T03:00:00+02:00 added",
        "2027-10-31T02:30:00+01:00 removed",
    ]


def test_kept_semantics_are_equal():
    [entry] = read(manifest(), KEEP)

    assert (entry.stored.gap, entry.stored.fold) == (GapPolicy.SKIP, FoldPolicy.BOTH)
    assert prove(entry.source, entry.stored, after=AFTER).is_equal


def test_a_step_of_days_restricts_as_it_does_there():
    [entry] = read(manifest(schedule="0 0 */2 * 1", timeZone="UTC"))

    # Odd days, or Mondays.
    assert local_fires(entry.stored, 4) == [f"2027-01-{day:02}T00:00:00" for day in (3, 4, 5, 7)]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (manifest(version="batch/v2alpha1"), "import.kubernetes.version"),
        (manifest(schedule="@every 1h"), "trigger.cron.every"),
        (manifest(schedule="TZ=Europe/Berlin 0 0 * * *"), "trigger.cron.timezone_prefix"),
        (manifest(schedule="0 0 31 2 *"), "trigger.cron.unreachable"),
        (manifest(schedule=None), "import.missing"),
        (manifest(schedule=5), "import.type"),
        (manifest(timeZone="Mars/Base"), "trigger.timezone.unknown"),
        (manifest(suspend="yes"), "import.type"),
        (manifest(concurrencyPolicy="Never"), "import.kubernetes.concurrency"),
        (manifest(concurrencyPolicy=["Forbid"]), "import.type"),
        (manifest(startingDeadlineSeconds="1"), "import.type"),
        (manifest("\ud800"), "import.input"),
        (manifest("---"), "import.name"),
        ({**manifest(), "spec": []}, "import.type"),
        ({**manifest(), "metadata": None}, "import.missing"),
        ({"kind": "Service"}, "import.kubernetes.none"),
        ([[[[[[[[manifest()]]]]]]]], "import.kubernetes.depth"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused(item, code):
    if code == "import.name":
        item["metadata"]["namespace"] = "---"
    assert refusal(parse_kubernetes, json.dumps(item)) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "import.kubernetes.none"),
        ("{", "import.json"),
        ("[" * 100_000, "import.json"),
        ("[" + "9" * 5_000 + "]", "import.json"),
        ("a: [", "import.yaml"),
        ("a: !!python/object/apply:os.system [ls]", "import.yaml"),
        ("a: 2027-99-99", "import.yaml"),
        ("a: &x [1]\nb: [*x, *x]", "import.yaml.alias"),
        ("a: &x {b: c}\nd:\n  <<: *x", "import.yaml.alias"),
        ("- " * 100 + "a", "import.yaml.depth"),
        ("a: " + "x" * 1_000_001, "import.size"),
        ("{" + " " * MOST_CHARACTERS, "import.size"),
        ("just a text", "import.type"),
    ],
)
def test_a_file_that_is_hostile_or_broken_is_refused_as_a_whole(text, code):
    assert refusal(parse_kubernetes, text) == code


def test_a_refusal_does_not_hold_up_the_others_and_names_are_unique():
    found: Any = parse_kubernetes(json.dumps([manifest(), manifest(schedule="x"), manifest()]), Options())

    assert isinstance(found[1], Refusal)
    assert (found[1].origin, found[0].name, found[2].name) == ("CronJob 2", "prod.nightly", "prod.nightly-2")
