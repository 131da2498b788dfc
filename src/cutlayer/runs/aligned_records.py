"""Which of a party's records take part, by the form of alignment that its configuration names."""

from collections.abc import Sequence
from typing import TypeVar

from cutlayer.alignment.aligned_ids import read_aligned_ids, write_aligned_ids
from cutlayer.alignment.ristretto import require_libsodium
from cutlayer.data import PartyTable, TextSequence
from cutlayer.data.tensor_records import TensorRecords
from cutlayer.errors import ConfigurationError, DataError
from cutlayer.parties.private_alignment import AlignedIds, OnProgress, align_privately
from cutlayer.protocol import Session, Transport
from cutlayer.runs.configuration import PartyConfiguration

AnyRecords = TypeVar("AnyRecords", PartyTable, TensorRecords)

_SHOWN = 3
_ALIGN_AGAIN = "The file has changed since: run `cutlayer align CONFIG` at both parties again."
_ALIGN_NEW = (
    "New records need shared ids of their own: run `cutlayer align CONFIG --file NEW --aligned-ids "
    "NEW_IDS` at both parties, then `cutlayer predict CONFIG` with the same two options."
)


def require_private(configuration: PartyConfiguration) -> None:
    """Refuse to align for a training that would not use the result, or without libsodium.

    Raises:
        ConfigurationError: ``alignment`` is something else than ``private``, or the extra that
            brings libsodium is not installed.
    """
    if configuration.alignment != "private":
        raise ConfigurationError(
            f"{configuration.role.value}: alignment is {configuration.alignment!r}, which needs no "
            'alignment of its own. Write alignment = "private" at both parties, or train at once.'
        )
    require_libsodium()


def align(
    configuration: PartyConfiguration,
    ids: TextSequence,
    transport: Transport,
    on_progress: OnProgress | None = None,
) -> AlignedIds:
    """Find the shared ids with the peer, and keep them for the training.

    Args:
        configuration: of this party; :func:`require_private` has passed it.
        ids: of this party's file.
        transport: to the peer.
        on_progress: told after each block.

    Raises:
        ConfigurationError: this party has more ids than ``max_ids``.
        DataError: no record is shared.
        StorageError: the ids cannot be written.
        CutlayerError: the session failed; what an earlier one found stays.
    """
    terms = configuration.terms("alignment")
    with Session(
        configuration.role, transport, run=configuration.run, deadlines=configuration.deadlines
    ) as session:
        return align_privately(
            session,
            terms,
            ids,
            max_ids=configuration.max_ids,
            on_progress=on_progress,
            keep=lambda aligned: write_aligned_ids(configuration.aligned_ids_file, aligned.ids),
        )


def aligned_records(
    configuration: PartyConfiguration, records: AnyRecords, *, predicting: bool = False
) -> AnyRecords:
    """This party's records that take part in the training or prediction.

    ===========  =================================================================================
    alignment    records
    ===========  =================================================================================
    ``digests``  all: the handshake finds the shared ones
    ``given``    all, ascending by id: the peer's file holds exactly the same ids
    ``private``  the shared ones, ascending by id, from the file that ``cutlayer align`` wrote
    ===========  =================================================================================

    Args:
        configuration: of this party.
        records: all of its file.
        predicting: whether a finished run is to predict them: then other records than those of the
            training need shared ids of their own.

    Raises:
        DataError: there is no such file, it is damaged, or it names ids that ``records`` lack.
    """
    if configuration.alignment == "digests":
        return records
    if configuration.alignment == "given":
        return records.ordered_by(_ascending(records.ids))
    party, path = configuration.role.value, configuration.aligned_ids_file
    try:
        shared = read_aligned_ids(path)
    except DataError as error:
        raise DataError(f"{party}: {error}{f' {_ALIGN_NEW}' if predicting else ''}") from error
    lost = _missing(records.ids, shared)
    if lost:
        listed = ", ".join(repr(name) for name in lost[:_SHOWN])
        raise DataError(
            f"{party}: {len(lost):,} of the {len(shared):,} shared ids in {path} are not in the "
            f"party's file: {listed}{' and others' if len(lost) > _SHOWN else ''}. "
            + (_ALIGN_NEW if predicting else _ALIGN_AGAIN)
        )
    return records.ordered_by(shared)


def _ascending(ids: Sequence[str]) -> TextSequence:
    """The ids in the order of code points, as Python sorts texts."""
    return TextSequence(TextSequence(ids).series.sort())


def _missing(held: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted ids that are not held."""
    named = TextSequence(wanted)
    rows = TextSequence(held).rows_of(named)
    return [named[int(row)] for row in (rows == -1).nonzero()[0]]
