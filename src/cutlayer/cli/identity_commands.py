"""The commands that prepare a party: init makes its identity, pair pins the peer's."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cutlayer.cli.console import screen
from cutlayer.data.tables.delimited_text import TextFormat
from cutlayer.data.tables.file_message import FileMessage, listing
from cutlayer.data.tables.opening import open_table
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.protocol.identity import create_identity, fingerprint, pair, word_of
from cutlayer.protocol.messages import Role
from cutlayer.runs.template import template

IDENTITY_FOLDER = Path("identity")
_SHOWN = 40

Folder = Annotated[Path, typer.Option("--identity", help="The folder of the identity.")]


def init(
    party: Annotated[str, typer.Argument(help="label-party or non-label-party.")],
    file: Annotated[str, typer.Option(help="This party's table.")] = "records.csv",
    out: Annotated[
        Path | None, typer.Option(help="The configuration to write. Default: PARTY.toml")
    ] = None,
    identity: Folder = IDENTITY_FOLDER,
    days: Annotated[
        int, typer.Option(min=1, max=36_500, help="Until the certificate expires.")
    ] = 730,
) -> None:
    """Make this party's key and certificate, and a first configuration unless there is one."""
    roles = {word_of(role): role for role in Role}
    if party not in roles:
        raise ConfigurationError(f"No party is called {party!r}. Known: {', '.join(roles)}.")
    role, target, console = roles[party], out or Path(f"{party}.toml"), screen()
    certificate = create_identity(identity, role, days=days)
    console.print(
        f"Wrote the key {identity / party}.key, which stays here, and the certificate "
        f"{identity / party}.crt, which the {role.peer.value} needs.\n"
        f"Its fingerprint: {fingerprint(certificate)}",
        soft_wrap=True,
    )
    if target.exists():
        console.print(f"{target} exists and was left as it is.", soft_wrap=True)
    else:
        target.write_text(template(role, file, str(identity)), encoding="utf-8")
        console.print(f"Wrote {target}. Name your columns in it.", soft_wrap=True)
    _show_columns(Path(file), role, console)
    console.print(
        f"Then: cutlayer pair {word_of(role.peer)}.crt, and cutlayer {party} {target}",
        soft_wrap=True,
    )


def _show_columns(file: Path, role: Role, console: Console) -> None:
    """Say what can be named in the configuration, if the file is there already."""
    if not file.exists():
        return
    message = FileMessage(role.value, file)
    try:
        names = open_table(file, TextFormat(), message).names
    except DataError as error:
        console.print(f"Its columns cannot be told yet. {error}", style="yellow", soft_wrap=True)
        return
    console.print(f"Columns of {file}: {listing(names, shown=_SHOWN)}.", soft_wrap=True)


def pair_with(
    peer: Annotated[Path, typer.Argument(metavar="PEER.crt", help="The peer's certificate.")],
    identity: Folder = IDENTITY_FOLDER,
    replace: Annotated[
        bool, typer.Option("--replace", help="Pin it in place of another one.")
    ] = False,
) -> None:
    """Trust the peer's certificate, and no other; then compare fingerprints by voice."""
    role, own, theirs = pair(identity, peer, replace=replace)
    screen().print(
        f"{role.value}, this party: {own}\n"
        f"{role.peer.value}, the peer: {theirs}\n"
        "Read both to the peer on the telephone: it must see the same two. If one differs, someone "
        f"changed a certificate on its way; delete {identity / 'peer.crt'}.",
        soft_wrap=True,
    )
