"""`everwhen why` against a live server, and what it prints of an explanation, line by line."""

from everwhen.cli.why import lines

CRON = ("--cron", "30 2 * * *", "--tz", "Europe/Berlin")


def segment(reason, since, until, seconds, *, sentence):
    return {"reason": reason, "from": since, "to": until, "seconds": seconds, "sentence": sentence}


SAID = {
    "ref": "nightly@2026-11-30T02:30+01:00",
    "state": "succeeded",
    "headline": "Started 11m 3s late: 7m 12s at the limit of its queue, 3m 51s without a live worker.",
    "intended_local": "2026-11-30T02:30:00+01:00",
    "evaluated_at": "2026-11-30T01:45:00Z",
    "complete": False,
    "policy_in_force": {"revision": 17},
    "segments": [
        segment(
            "limit.queue", "2026-11-30T01:30:00Z", "2026-11-30T01:37:12Z", 432.0, sentence="10 of 10 were in flight."
        ),
        segment(
            "worker.none_live",
            "2026-11-30T01:37:12Z",
            "2026-11-30T01:41:03Z",
            231.0,
            sentence="No worker was \x1basking.",
        ),
    ],
    "also_blocking": [segment("worker.none_live", "", "", 1.0, sentence="No worker was asking.")],
    "remedies": [
        {"text": "Raise the limit.", "action": None},
        {"text": "Start a worker.", "action": "everwhen worker tasks:worker"},
    ],
}


def test_a_person_reads_a_headline_a_timeline_and_what_would_help():
    assert list(lines(SAID)) == [
        "nightly@2026-11-30T02:30+01:00  succeeded",
        "",
        "  Started 11m 3s late: 7m 12s at the limit of its queue, 3m 51s without a live worker.",
        "",
        "  2026-11-30 02:30:00  ████████████████████████  7m 12s  limit.queue",
        "                                                         10 of 10 were in flight.",
        "  2026-11-30 02:37:12  █████████████             3m 51s  worker.none_live",
        "                                                         No worker was ?asking.",
        "  2026-11-30 02:41:03",
        "",
        "  Meanwhile also",
        "    No worker was asking.",
        "",
        "  What would help",
        "    Raise the limit.",
        "    Start a worker.",
        "      $ everwhen worker tasks:worker",
        "",
        "  revision 17 · as of 2026-11-30 02:45:00 · not complete: nobody watched all the time",
    ]


def test_an_instant_without_a_run_is_short():
    said = SAID | {"state": None, "segments": [], "also_blocking": [], "remedies": [], "complete": True,
                   "policy_in_force": {"revision": None}, "headline": "Never intended."}  # fmt: skip

    assert list(lines(said)) == [
        "nightly@2026-11-30T02:30+01:00  never intended",
        "",
        "  Never intended.",
        "",
        "  as of 2026-11-30 02:45:00 · complete",
    ]


def test_a_run_and_an_instant_are_explained_by_a_live_server(shell):
    shell("task", "create", "report")
    shell("schedule", "create", "nightly", "--task", "report", *CRON)
    run = shell.json("run", "request", "report", "--key", "k")["items"][0]["id"]

    assert shell("why", run).stdout.splitlines()[0] == f"{run}  waiting"
    assert shell.json("why", run)["items"][0]["state"] == "waiting"
    never = shell("why", "nightly@2020-11-30T14:00").stdout
    assert "Never intended. The schedule did not exist yet: it was made at " in never
    shell("why", "nightly@yesterday", exit_code=2)
    shell("why", "nobody@2020-11-30T14:00", exit_code=3)
    twice = shell("why", "nightly@2020-10-25T02:30", exit_code=2)
    assert "occurs twice in Europe/Berlin" in twice.stderr


def test_the_events_of_a_run_say_what_they_mean(shell):
    shell("task", "create", "report")
    run = shell.json("run", "request", "report", "--key", "k")["items"][0]["id"]
    shell("run", "cancel", run, "--reason", "not needed")
    listed = shell("run", "events", run).stdout.splitlines()

    assert listed[0].split() == ["AT", "EVENT", "ATTEMPT", "REASON", "MEANING"]
    assert listed[2].endswith("Somebody asked for the run to be cancelled. (by=tester, reason=not needed)")
