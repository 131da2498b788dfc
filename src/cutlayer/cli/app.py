"""The command line: which commands there are, and what becomes of an error.

A command's module is imported when the command is asked for, since most of them need torch, which
takes seconds to load.
"""

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from cutlayer.cli.console import escape_reports, screen
from cutlayer.cli.exit_status import FAILED, INTERRUPTED, TO_MEND, complain
from cutlayer.cli.standard_streams import lenient_streams
from cutlayer.errors import (
    ConfigurationError,
    CutlayerError,
    DataError,
    LeakStopError,
    PeerEndedError,
    ProtectionError,
    StorageError,
    TermsMismatchError,
)
from cutlayer.operation.process_limits import prepare_process

_NEED_AN_OPERATOR = (
    ConfigurationError,
    DataError,
    LeakStopError,
    ProtectionError,
    TermsMismatchError,
)
"""Starting again changes nothing, so a service must not."""
_WRONG_PATH = {
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
}
"""What the system says of a path that somebody must mend."""
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "start new thread")
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Lets every key of a configuration be given as an option: ``--epochs 5``."""


_KEYS = (
    "Every key of the configuration can be given as an option as well. The most common: --file, "
    "--epochs, --batch-size, --protection, --address, --folder, --device. docs/configuration.md "
    "explains all of them."
)
"""What the help of a party's command says beneath its options."""


@dataclass(frozen=True)
class Command:
    """Where a command lives, and what it is for."""

    module: str
    """Of this package."""
    function: str
    """In it; or an app with commands of its own."""
    about: str
    passes_on: bool = False
    """Whether it takes every key of its configuration as an option."""
    epilog: str | None = None
    """What its help says at the end."""

    def load(self, name: str) -> Any:
        """Import it, and make a command of it."""
        found = getattr(import_module(f"cutlayer.cli.{self.module}"), self.function)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = _PASS_ON if self.passes_on else {}
        about = None if found.__doc__ else self.about
        alone.command(name, context_settings=settings, help=about, epilog=self.epilog)(found)
        return typer.main.get_command(alone)


COMMANDS = {
    "init": Command(
        "identity_commands",
        "init",
        "Make this party's key and certificate, and a first configuration unless there is one.",
    ),
    "pair": Command(
        "identity_commands",
        "pair_with",
        "Trust the peer's certificate, and no other; then compare fingerprints by voice.",
    ),
    "label-party": Command(
        "party_commands", "label_party", "Train as the label party.", passes_on=True, epilog=_KEYS
    ),
    "non-label-party": Command(
        "party_commands",
        "non_label_party",
        "Train as the non-label party.",
        passes_on=True,
        epilog=_KEYS,
    ),
    "align": Command(
        "align_command",
        "align_records",
        "Find the shared records privately; start it at both parties, before the training.",
        passes_on=True,
        epilog=_KEYS,
    ),
    "doctor": Command(
        "doctor_command",
        "doctor",
        "Look at configuration, file, identity, run, disk, network and machine; change nothing.",
        passes_on=True,
        epilog=_KEYS,
    ),
    "predict": Command(
        "party_commands",
        "predict",
        "Predict the records of both parties' files with a finished run; start it at both parties.",
        passes_on=True,
        epilog=_KEYS,
    ),
    "prepare": Command(
        "prepare_commands",
        "prepare_app",
        "Turn raw data as downloaded into one folder of shards for each party.",
    ),
    "tradeoff": Command(
        "tradeoff_command",
        "tradeoff",
        "Train protections x strengths x seeds, attack every message, draw utility against leak.",
        passes_on=True,
    ),
    "demo": Command(
        "comparison_commands",
        "demo",
        "Train with and without protections, two processes on this machine; compare the leak.",
    ),
    "simulate": Command(
        "comparison_commands",
        "simulate",
        "The same in one process with repeatable noise, for research. It protects nothing.",
    ),
    "audit": Command(
        "audit_commands",
        "audit",
        "Attack recorded messages with every attack, and write findings and report.",
    ),
    "report": Command(
        "audit_commands",
        "report",
        "Print the table of a run and write its page again, from findings.json.",
    ),
}
"""All commands, in the order of the help."""
_LIGHT = ("init", "pair")
"""These load neither torch nor a reader of tables, and open no port."""


class _Commands(TyperGroup):
    """Lists commands by what is said of them here, and imports the one that is called."""

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        if name in COMMANDS and name not in _LIGHT:
            prepare_process()
        return name, COMMANDS[name].load(name) if name in COMMANDS else None, rest


app = typer.Typer(
    name="cutlayer",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    """Print the version, and end."""
    if asked:
        screen().print(f"cutlayer {version('cutlayer')}", highlight=False)
        raise typer.Exit


@app.callback()
def _cutlayer(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and end.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Two-party split learning that measures and limits how much the gradient tells of labels."""


def _not_loaded() -> None:
    """Stands for a command in the help; the command itself is loaded in its place."""


for _name, _command in COMMANDS.items():
    app.command(_name, help=_command.about)(_not_loaded)


def main() -> None:
    """Entry point: errors of ours become one message and an exit status."""
    escape_reports()
    with lenient_streams():
        _run()


def _run() -> None:
    """Run the command that the arguments name."""
    _require_text(sys.argv[1:])
    try:
        app()  # typer ends the process itself, with 2 after a wrong argument
    except _NEED_AN_OPERATOR as error:
        complain(str(error), TO_MEND)
    except PeerEndedError as error:
        complain(str(error), INTERRUPTED if error.stopped else FAILED)
    except StorageError as error:
        complain(str(error), _status_of(error.__cause__))
    except CutlayerError as error:
        complain(str(error), FAILED)
    except (MemoryError, RuntimeError) as error:
        if not _lacks_memory(error):
            raise
        complain(
            f"The system gave this process no more memory ({error or 'none is left'}). What was "
            "kept is whole. Lower batch_size or threads, or raise the limit, then start the same "
            "command again.",
            FAILED,
        )
    except OSError as error:  # a full disk or a wrong path where no module words it better
        where = "" if error.filename is None else f" ({error.filename})"
        complain(
            f"The system refused to read or write{where}: {error.strerror or error}. Look at the "
            "path, its rights and the room on the disk, then start the same command again.",
            _status_of(error),
        )


def _status_of(error: BaseException | None) -> int:
    """A wrong path stays wrong at the next start; room on a disk may come back."""
    is_path = isinstance(error, OSError) and error.errno in _WRONG_PATH
    return TO_MEND if is_path else FAILED


def _lacks_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether memory is what lacked; torch and threads say so in the text of an error."""
    said = str(error)
    return isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are no text: findings and logs, which name files, could not be written."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            complain(
                f"The argument {word} is no UTF-8 text. Rename the file that it names, or type it "
                "in UTF-8.",
                TO_MEND,
            )
