"""`everwhen import`: bring schedules in from elsewhere."""

import click

from everwhen.cli.crontab import import_crontab
from everwhen.cli.import_sources import IMPORTERS, import_command


@click.group("import", short_help="Bring schedules in from elsewhere.")
@click.pass_context
def import_group(context: click.Context) -> None:
    """Bring schedules in from elsewhere; each shows what it becomes and when it fires next."""

    def client() -> object:
        from everwhen.cli.client import open_client

        return open_client()

    context.obj = client


import_group.add_command(import_crontab)
for importer in IMPORTERS:
    import_group.add_command(import_command(importer))
