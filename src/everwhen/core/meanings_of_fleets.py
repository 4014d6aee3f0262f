"""What the reasons of fleets mean, their queues, limits, brokers, endpoints and executors: a part of the registry."""

from collections.abc import Mapping
from typing import Final

from everwhen.core.meaning import Meaning, of
from everwhen.core.reasons import Category, Reason, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR

FLEET_MEANINGS: Final[Mapping[str, Meaning]] = {
    Reason.BROKER_UNREACHABLE: of(
        Category.RESOURCE,
        _WARNING,
        "The broker that delivers the queue could not be reached, or nobody told it of runs.",
        telling="The broker {broker}, which delivers the queue {queue}, was told of nothing.",
        remedy="See to the broker and the role `relay`; workers that ask over HTTP get the runs meanwhile.",
    ),
    Reason.ENDPOINT_RESTS: of(
        Category.RESOURCE,
        _WARNING,
        "The queue's endpoint failed, or asked for time, and nothing was posted to it for a while.",
        telling="The endpoint of queue {queue} was left alone until {until}, after {failures} failures in a row{why}.",
        remedy="See how the endpoint does; it is tried again by itself.",
    ),
    Reason.EXECUTOR_CPU_LIMIT: of(
        Category.ENDED,
        _ERROR,
        "The program used more CPU than its executor allows.",
        remedy="Look into the attempt's log; make the program cheaper, or raise the executor's --cpu-seconds.",
    ),
    Reason.EXECUTOR_EXIT: of(
        Category.ENDED,
        _ERROR,
        "The program ended with an exit code other than 0.",
        telling="The program of attempt {attempt} failed{error}.",
        remedy="Read the attempt's error and its log, mend the program, then redrive the run.",
    ),
    Reason.EXECUTOR_FILE_LIMIT: of(
        Category.ENDED,
        _ERROR,
        "The program wrote more to files than its executor allows.",
        remedy="Write less, or elsewhere, or raise the executor's --file-mb and --disk-mb.",
    ),
    Reason.EXECUTOR_NOT_EXECUTABLE: of(
        Category.ENDED,
        _ERROR,
        "The payload is no program that the executor's machine can run.",
        remedy="Upload a script with a #! line, or an executable for that machine.",
    ),
    Reason.EXECUTOR_OUT_OF_MEMORY: of(
        Category.ENDED,
        _ERROR,
        "The program needed more memory than its executor allows.",
        remedy="Make the program need less, or raise the executor's --memory-mb.",
    ),
    Reason.EXECUTOR_PROCESS_LIMIT: of(
        Category.ENDED,
        _ERROR,
        "The program started more processes than its executor allows at once.",
        remedy="Start fewer, or raise the executor's --processes.",
    ),
    Reason.EXECUTOR_SIGNAL: of(
        Category.ENDED,
        _ERROR,
        "The program was ended by a signal, and not by its executor.",
        remedy="Read the attempt's log: a crash of the program, most often.",
    ),
    Reason.EXECUTOR_TIME_LIMIT: of(
        Category.ENDED,
        _ERROR,
        "The program ran for longer than its executor allows.",
        remedy="Make the program faster, or raise the executor's --seconds.",
    ),
    Reason.EXECUTOR_ZOMBIE: of(
        Category.ENDED,
        _WARNING,
        "The program did nothing for a long time: no CPU, nothing read, nothing written.",
        remedy="Read in the attempt's log what it waits for; cancel the run if it hangs.",
    ),
    Reason.LIMIT_KEY: of(
        Category.RESOURCE,
        _INFO,
        "As many runs or nodes with the same concurrency key were under way as it allows.",
        remedy="Wait for those that have the key, raise its limit, or make keys of other values.",
    ),
    Reason.LIMIT_QUEUE: of(
        Category.RESOURCE,
        _WARNING,
        "As many of the tenant's runs were in flight at the queue as its limit allows.",
        telling="{in_flight} of {limit} runs allowed at queue {queue} were in flight.",
        remedy="Raise the limit of the queue, or make its tasks shorter.",
    ),
    Reason.LIMIT_RATE: of(
        Category.RESOURCE,
        _WARNING,
        "As many runs were started in that time as the rate limit allows.",
        telling="The rate of {tokens} runs in {seconds} s was used up.",
        remedy="Raise the rate limit.",
    ),
    Reason.LIMIT_SCHEDULE: of(
        Category.WAITING,
        _INFO,
        "As many runs of the schedule were in flight as it allows at once.",
        telling="{in_flight} of {limit} runs that the schedule allows at once were in flight.",
        remedy="Raise the schedule's maximum at once, or make its task shorter.",
    ),
    Reason.LIMIT_TASK: of(
        Category.RESOURCE,
        _WARNING,
        "As many runs of the task were under way as it allows at once.",
        telling="{in_flight} of {limit} runs that task {task} allows at once were under way.",
        remedy="Raise the task's max_in_flight, or make it shorter.",
    ),
    Reason.LIMIT_TENANT: of(
        Category.RESOURCE,
        _WARNING,
        "As many runs of the tenant were in flight as its limit allows.",
        telling="{in_flight} of {limit} runs allowed to the tenant were in flight.",
        remedy="Raise the tenant's limit.",
    ),
    Reason.LIMIT_WORKFLOW: of(
        Category.WAITING,
        _INFO,
        "As many nodes of the workflow's run, or instances of the fan-out, were under way as it allows at once.",
        remedy="Raise max_parallel of the workflow or of the fan-out.",
    ),
    Reason.QUEUE_PAUSED: of(
        Category.RESOURCE,
        _WARNING,
        "The queue was paused.",
        telling="Queue {queue} was paused{why}.",
        remedy="Resume the queue.",
    ),
    Reason.QUEUE_WAITING: of(
        Category.RESOURCE,
        _INFO,
        "The run waited in the line of its queue until a worker took it.",
        telling="The run waited in the line of queue {queue} until a worker took it.",
    ),
    Reason.WORKER_CORDONED: of(
        Category.RESOURCE,
        _ERROR,
        "Every live worker of the queue was cordoned.",
        telling="Every live worker of queue {queue} was cordoned: {workers} in all.",
        remedy="Uncordon a worker of the queue, or start another one.",
    ),
    Reason.WORKER_DRAINING: of(
        Category.RESOURCE,
        _ERROR,
        "Every live worker of the queue was drained, or about to stop.",
        telling="Every live worker of queue {queue} was drained, cordoned or about to stop: {workers} in all.",
        remedy="Start the successors of these workers, or uncordon one.",
    ),
    Reason.WORKER_NO_CAPABILITY_MATCH: of(
        Category.RESOURCE,
        _ERROR,
        "No worker of the queue fits the run: none knows its task, or none has what it requires.",
        telling="No worker of queue {queue} fits the run of task {task}{why}.",
        remedy="Start a worker that knows the task and has what it requires, or require less; or correct its queue.",
    ),
    Reason.WORKER_NONE_LIVE: of(
        Category.RESOURCE,
        _ERROR,
        "No worker was asking for runs of the queue.",
        telling="No worker was asking for runs of queue {queue}; the last one was seen at {last_seen}.",
        remedy="Start a worker for the queue, or see why those that there were have stopped.",
    ),
    Reason.WORKER_NONE_REGISTERED: of(
        Category.RESOURCE,
        _ERROR,
        "No worker has asked for runs of the queue in the last 30 days.",
        telling="No worker has asked for runs of queue {queue} in the last 30 days.",
        remedy="Start a worker for the queue, or correct the queue's name on the task.",
    ),
    Reason.WORKER_SLOTS_FULL: of(
        Category.RESOURCE,
        _WARNING,
        "Every slot of the queue's live workers was taken.",
        telling="Every slot of the workers at queue {queue} was taken, with {in_flight} runs in flight{why}.",
        remedy="Start more workers, or give them more slots.",
    ),
}
