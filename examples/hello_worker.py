"""The smallest useful worker.

Run it from this directory:  everwhen worker hello_worker:worker
"""

from everwhen.worker import Context, Worker

worker = Worker()


@worker.task("hello")
def hello(ctx: Context, name: str = "world") -> dict[str, str]:
    """Greet, and say for which instant."""
    print(f"Hello {name}, attempt {ctx.attempt} for {ctx.nominal_at or ctx.due_at:%Y-%m-%d %H:%M:%S} UTC")
    return {"greeted": name}
