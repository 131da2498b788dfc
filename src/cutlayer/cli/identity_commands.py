"""The commands that prepare a party: init makes its identity, pair pins the peer's."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cutlayer.errors import ConfigurationError
from cutlayer.protocol import Role, create_identity
from cutlayer.protocol.identity import fingerprint, pair, word_of
from cutlayer.runs.template import template

IDENTITY_FOLDER = Path("identity")

Folder = Annotated[Path, typer.Option("--identity", help="The folder of the identity.")]


def init(
    party: Annotated[str, typer.Argument(help="label-party or non-label-party.")],
    file: Annotated[str, typer.Option(help="This party's table.")] = "records.csv",
    out: Annotated[
        Path | None, typer.Option(help="The configuration to write. Default: PARTY.toml")
    ] = None,
    identity: Folder = IDENTITY_FOLDER,
    days: Annotated[int, typer.Option(min=1, help="Until the certificate expires.")] = 730,
) -> None:
    """Make this party's key and certificate, and a first configuration unless there is one."""
    roles = {word_of(role): role for role in Role}
    if party not in roles:
        raise ConfigurationError(f"No party is called {party!r}. Known: {', '.join(roles)}.")
    role, target, console = roles[party], out or Path(f"{party}.toml"), Console()
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
    console.print(
        f"Then: cutlayer pair {word_of(role.peer)}.crt, and cutlayer {party} {target}",
        soft_wrap=True,
    )


def pair_with(
    peer: Annotated[Path, typer.Argument(metavar="PEER.crt", help="The peer's certificate.")],
    identity: Folder = IDENTITY_FOLDER,
    replace: Annotated[
        bool, typer.Option("--replace", help="Pin it in place of another one.")
    ] = False,
) -> None:
    """Trust the peer's certificate, and no other; then compare fingerprints by voice."""
    role, own, theirs = pair(identity, peer, replace=replace)
    Console().print(
        f"{role.value}, this party: {own}\n"
        f"{role.peer.value}, the peer: {theirs}\n"
        "Read both to the peer on the telephone: it must see the same two. If one differs, someone "
        f"changed a certificate on its way; delete {identity / 'peer.crt'}.",
        soft_wrap=True,
    )
