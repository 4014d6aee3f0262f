"""Streams of events: a tenant's history, or that of one run, told as it grows, and resumed exactly where it broke off.

What the place in a stream is

Events get their ids when they are written and are seen when they are committed, and the two orders differ: event 7 may
be committed after event 8 was read. A place that is the last id that was seen would lose event 7. So a place is built
on what the database itself knows of commits, its snapshots:

    events      each knows the transaction that wrote it (`written_by`)
    cut         a snapshot of the database, kept in a row: which transactions had committed when it was taken
    stretch     what is committed at a cut, and was not at the cut before it
    place       a cut, and how far into its stretch, which is read in the order of the events' ids

Cuts are numbered by the clock's microseconds, always growing; a place is written `1796083200123456.8412`, or without a
dot when the whole stretch has been told. A run's history from its beginning has no cut before it, and its places have a
`~` for the dot: all that was committed at this cut, up to this event.

Why nothing is lost, and what order it is told in

1. Cuts are taken one at a time, under a lock, each by a statement that begins when it has the lock. So the snapshot of
   a cut holds everything that the one before it held: each committed event lies in exactly one stretch, however long
   its transaction took and however its id compares with others.
2. A row of cuts is never changed, so a stretch holds the same events whenever, and by whichever process, it is read: a
   place means the same on every copy, and after any of them has died.
3. What was decided because of an event comes after it. Whoever decided saw the event committed, so every snapshot that
   holds the later one holds the earlier one; and within a stretch the ids, which are drawn while the run is locked,
   keep their order.
4. An event is told with its place, and its place is told with it in one piece: whoever resumes hears everything after
   the last piece that arrived whole. A piece that arrived and was not taken note of is told again: at least once.

What it costs

The history pays eight bytes and an entry of an index for each event; nobody writes anything for a stream. Each process
looks once for all its streams (`feed.py`): four times a second while there are any, sooner when a wake-up is heard, and
one cheap statement when there is nothing new. What is new is read once for each tenant that somebody listens to, behind
row-level security, put into words once, and handed to each stream whose filter it fits (`hub.py`).

What ends a stream, and what does not

* *A slow reader.* A stream holds no more than MOST_QUEUED events for its reader. One that falls behind is not told from
  memory any more: it reads on from the database at its own pace, and joins the others again when it has caught up. One
  that takes nothing at all for STALL_SECONDS is dropped, as `reader.slow`.
* *The right to listen.* Who it is, and what he may, is looked at again every second; revoked, run out or without the
  role, the stream ends as `token.ended`. That is within five seconds of a revocation, as for requests.
* *A stop.* Streams are told to come back (`retry:`, spread at random) and end as `server.stopping`; what they had not
  been told yet is told by the next server.
* *A crash* ends the connection. The next server reads the stretch again from the rows, from the place on.
* *Time.* Cuts are kept for KEPT. Who returns later, or with a place of a history that was lost with a failed server or
  is another's, gets the event `reset` and the place from which the stream goes on; of a run it is told from the start.
* *The database is away.* Streams wait, and go on; nobody's place moves.
* *A dump that was restored* brings events whose transactions are another server's. The first cut on the new server
  begins above them, and older places are reset.

There are MOST_IN_ALL streams a process and MOST_OF_ONE for a tenant in it: one more is refused (503, 429).
"""
