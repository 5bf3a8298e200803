"""`amqp-broker serve`: resolves the settings and hands them to the server.

What stops a broker from starting (a foreign folder, a port in use, a second broker on the folder) becomes one
line on standard error and status 2; a folder that must not be used any more (it has forgotten, or its node was
removed), one line and status 3. The server itself is imported after the settings are known to be right.
"""

from __future__ import annotations

import os
import select
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from amqp_broker.cli.importing import without_collector
from amqp_broker.cli.settings import add_setting_flags, resolve_flags
from amqp_broker.settings.config import SETTINGS, TEMPORARY_PREFIX, Config
from amqp_broker.settings.kinds import FILE
from amqp_broker.settings.setting import ConfigError

#: The folder is never to be used again: to start the broker once more would say the same.
STATUS_GIVEN_UP = 3


@click.command()
@add_setting_flags
def serve(config_file: str | None, **values: object) -> int:
    """Run the broker until SIGTERM or SIGINT."""
    config = resolve_flags(config_file, values).config
    _check_files(config)
    with without_collector():  # late: a bad flag is answered before the broker is loaded
        from amqp_broker.server.main import serve as run
        from raft.errors import FolderGivenUp
        from storage.errors import StorageError

    with _removed_with_parent(config.data_dir if config.data_dir_is_temporary else None):
        try:
            return run(config, lambda: _read_again(config_file, values))
        except FolderGivenUp as error:
            click.echo(f"amqp-broker: {config.data_dir}: {error}", err=True)
            return STATUS_GIVEN_UP
        except StorageError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            raise click.ClickException(_explain(error, config.data_dir)) from error


def _read_again(config_file: str | None, values: Mapping[str, object]) -> Config:
    """The settings as the file and the environment say them now; flags stay. Raises ConfigError."""
    config = resolve_flags(config_file, values).config
    _check_files(config)
    return config


def _check_files(config: Config) -> None:
    """Every file that a setting names can be read. Raises ConfigError, before anything else has happened."""
    for each in SETTINGS:
        path = getattr(config, each.attribute)
        if each.kind is FILE and path is not None:
            try:
                path.open("rb").close()
            except OSError as error:
                raise ConfigError(f"{each.key}: '{path}' cannot be read ({error.strerror}); name a file") from error


def _explain(error: OSError, data_dir: Path) -> str:
    """One line for a failure of the operating system: on what, what failed, and the way out."""
    subject = error.filename or f"data folder {data_dir}"
    if isinstance(error, PermissionError):
        return f"{subject}: {error.strerror}; run as another user, or choose another --data-dir or --listen"
    return f"{subject}: {error.strerror or error}"


@contextmanager
def _removed_with_parent(folder: Path | None) -> Iterator[None]:
    """When the block is left because the parent is gone, removes the folder, as the parent would have done.

    Only a folder that was plainly made for this purpose is accepted: any other may be somebody's data.
    """
    wanted = Path(tempfile.gettempdir(), TEMPORARY_PREFIX)
    if folder is not None and (folder.parent != wanted.parent or not folder.name.startswith(wanted.name)):
        raise click.ClickException(f"data_dir_is_temporary: '{folder}' is not temporary; allowed: {wanted}...")
    process_id = os.getpid()
    try:
        yield
    finally:
        # A worker is a fork of this process, and its folder is a part of that.
        if folder is not None and os.getpid() == process_id and _parent_is_gone():
            shutil.rmtree(folder, ignore_errors=True)  # best effort: this process ends here, and nobody is left to tell


def _parent_is_gone() -> bool:
    """True if standard input, to which nothing is ever written, is at its end."""
    readable, _, _ = select.select([0], [], [], 0)
    return bool(readable)
