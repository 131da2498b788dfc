"""Checks of one party: its identity, its file, its run folder, its address."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cryptography import x509

from cutlayer.data import Encoder, TableReading
from cutlayer.data.tables.file_message import listing
from cutlayer.durable import in_use
from cutlayer.errors import ConnectionLostError, CutlayerError, DeadlineError, PeerRefusedError
from cutlayer.models import frozen_projection
from cutlayer.operation.checkup import Check, fault, ok, warning
from cutlayer.parties import CheckpointStore, ReleaseJournal, RunKey
from cutlayer.parties.agreement import LEAST_IN_PART
from cutlayer.parties.crossing_features import refused_copy, what_crosses
from cutlayer.parties.persistence import CHECKPOINTS_FOLDER, JOURNAL_FILE, KEY_FILE
from cutlayer.protocol import Identity, Role
from cutlayer.protocol.identity import fingerprint, read_certificate
from cutlayer.protocol.transports.probe import probe
from cutlayer.protocol.transports.stream_endpoints import listen
from cutlayer.runs.aligned_records import aligned_records
from cutlayer.runs.configuration import FROZEN, NonLabelConfiguration, PartyConfiguration
from cutlayer.runs.disk_space import disk_space_for, disk_space_still_needed, free_bytes
from cutlayer.runs.model_factory import require_model
from cutlayer.runs.run_folder import require_own
from cutlayer.runs.session_opening import identity_of

EXPIRY_DAYS = 30
"""A certificate that ends within so many days is spoken of."""
_SHOWN_COLUMNS = 9
LARGE_FILE_BYTES = 1 << 27
"""A larger file is not read to the end for a checkup; of it only the ids are."""


def check_identity(configuration: PartyConfiguration) -> tuple[list[Check], Identity | None]:
    """Key, certificates, fingerprints; and the identity, if it is in order."""
    try:
        identity = identity_of(configuration)
    except CutlayerError as error:
        return [fault("identity", str(error))], None
    if identity is None:
        plain = warning(
            "identity",
            "insecure_loopback: plain text, and whoever can use this machine can be the peer",
            "Leave insecure_loopback out where the parties are two organisations.",
        )
        return [plain], None
    own = read_certificate(identity.certificate_file, identity.role)
    return [
        ok("key", f"{identity.key_file}, for its owner alone"),
        _certificate("own certificate", own, "cutlayer init, and pair at the peer"),
        _certificate(
            "peer's certificate", identity.peer, "ask the peer for a new one, and pair again"
        ),
    ], identity


def check_file(configuration: PartyConfiguration) -> tuple[list[Check], TableReading | None]:
    """Whether the file can be read; and what was read, unless it is too large for a checkup."""
    path = configuration.file
    table_file = configuration.table_file()
    try:
        if path.is_file() and path.stat().st_size > LARGE_FILE_BYTES:
            ids = table_file.read_ids(configuration.role.value)
            return [
                warning(
                    "file",
                    f"{len(ids):,} records; of a file of {path.stat().st_size:,} bytes only the "
                    "ids were looked at",
                    "Nothing; the training looks at the rest before it meets the peer.",
                )
            ], None
        reading = table_file.read(configuration.role.value)
        table = aligned_records(configuration, reading.table)
    except CutlayerError as error:
        return [fault("file", str(error))], None
    taking_part = "" if len(table) == len(reading.table) else f", of which {len(table):,} take part"
    found = f"{len(reading.table):,} records{taking_part}, {reading.table.features.width} columns"
    if reading.table.labels is not None:
        found += ", two label values"
    if reading.notices:
        # Not their texts: a checkup is shown to others, and those of the label party count labels.
        notices = "1 notice" if len(reading.notices) == 1 else f"{len(reading.notices)} notices"
        found += f"; {notices}, which the training shows"
    checks = [ok("file", found)]
    if reading.giveaways:
        # By name alone, for the same reason.
        columns = listing(reading.giveaways, shown=_SHOWN_COLUMNS)
        checks.append(
            warning(
                "label",
                f"{columns}: each orders the records nearly as the label does, or tells the label "
                "of many of them",
                "List under drop what is only known after the outcome, or call the records "
                "otherwise if it is their ids. The training says how each gives the label away.",
            )
        )
    return checks, reading


def check_model(configuration: PartyConfiguration) -> Check:
    """Whether the half's model is known."""
    try:
        require_model(configuration)
    except CutlayerError as error:
        return fault("model", str(error))
    return ok("model", f"{configuration.model}, protection {configuration.protection}")


def check_batches(configuration: PartyConfiguration, reading: TableReading) -> Check:
    """Whether the training records will fill a batch; how many there are, the peer has a say in."""
    share = 1 - configuration.validation_share - configuration.test_share
    records, wanted = len(reading.table), configuration.batch_size
    expected = int(records * share)
    found = f"about {expected:,} of {records:,} records train, if the peer has all of them"
    if configuration.protection == FROZEN or expected >= wanted:
        return _small_parts(configuration, records) or ok(
            "batches", f"{found}; at least {wanted:,} in a batch"
        )
    fix = f"Set batch_size to at most {expected:,} at both parties, or bring more records."
    found = f"{found}, and batch_size is {wanted:,}"
    return fault("batches", found, fix) if records < wanted else warning("batches", found, fix)


def _small_parts(configuration: PartyConfiguration, records: int) -> Check | None:
    """A warning where a part of the split is likely to be refused for its size."""
    shares = {"validation": configuration.validation_share, "test": configuration.test_share}
    small = [part for part, share in shares.items() if 0 < share * records < LEAST_IN_PART]
    if not small:
        return None
    return warning(
        "batches",
        f"about {int(shares[small[0]] * records)} of {records:,} records fall into the {small[0]} "
        f"part, which needs at least {LEAST_IN_PART}",
        "Bring more records, or give that part a larger share at both parties.",
    )


def check_crossing(configuration: NonLabelConfiguration, reading: TableReading) -> Check:
    """How much of the features ``frozen`` sends; of all records, of which a part will train."""
    try:
        table = aligned_records(configuration, reading.table)
        features = Encoder.fit(table).encode(table)
        carried = frozen_projection(features, configuration.cut_width).carried
    except (CutlayerError, ValueError) as error:
        return fault("features", str(error))
    if carried.is_copy and not configuration.allow_feature_copy:
        return fault("features", refused_copy(carried))
    said = what_crosses(carried)
    if carried.is_copy or carried.is_nearly_copy:
        return warning("features", said, "Lower cut_width at both parties.")
    return ok("features", said)


def check_run_folder(configuration: PartyConfiguration) -> Iterator[Check]:
    """Whether what was kept of the run can be gone on with; nothing in the folder is changed."""
    folder = configuration.run_folder
    key, journal = folder / KEY_FILE, folder / JOURNAL_FILE
    store = CheckpointStore(folder / CHECKPOINTS_FOLDER)
    released = 0
    try:
        require_own(configuration)
    except CutlayerError as error:
        yield fault("run folder", str(error))
        return
    if in_use(folder):
        yield warning(
            "run folder",
            "another process of this party is working in it",
            "Wait for it to end, or stop it, before you start this party here.",
        )
    if journal.exists() and configuration.role is Role.LABEL:
        try:
            kept = ReleaseJournal(journal, configuration.protection_settings, look_only=True)
        except CutlayerError as error:
            yield fault("journal", str(error))
            return
        released = kept.released
        kept.close()
        yield ok("journal", f"sound, {released:,} steps were answered")
    if key.exists():
        try:
            RunKey.read_from(key)
        except CutlayerError as error:
            yield fault("run key", str(error))
        else:
            yield ok("run key", f"{key}, for its owner alone")
    elif released or store.steps:
        yield fault(
            "run key",
            f"{key} is gone, and the run has been going on",
            "Put it back: nothing that was sent can be computed again without it. Or begin a run "
            "of another name, and count what this one has sent.",
        )
    yield _checkpoints(store, released if configuration.role is Role.LABEL else None)


def check_room(configuration: PartyConfiguration, reading: TableReading) -> Check:
    """Whether the disk has room for what the run keeps."""
    folder = configuration.run_folder
    try:
        needed = disk_space_still_needed(disk_space_for(configuration, reading.table), folder)
        free = free_bytes(folder)
    except CutlayerError as error:
        return fault("disk", str(error))
    found = (
        f"{_size(free)} free; needed about {_size(needed.total)}: checkpoints "
        f"{_size(needed.checkpoints)}, journal {_size(needed.journal)}, recording "
        f"{_size(needed.recording)}"
    )
    fix = "Give it room, or name a folder on another disk."
    if free < needed.checkpoints:
        return fault("disk", found, fix)
    return warning("disk", found, fix) if free < needed.total else ok("disk", found)


def check_address(configuration: PartyConfiguration, identity: Identity | None) -> Check:
    """Whether the label party can listen, or the non-label party can reach it."""
    try:
        address = configuration.meeting_point
        if configuration.role is Role.LABEL:
            listen(address).close()
            return ok("address", f"{address} is free to listen on")
        by_grpc = configuration.transport == "grpc"
        negotiated = probe(address, identity, grpc=by_grpc)
    except PeerRefusedError as error:
        return fault("address", str(error))
    except DeadlineError as error:
        return fault("address", str(error), "Let TCP through to the label party's port.")
    except ConnectionLostError as error:
        return warning(
            "address",
            str(error),
            "Either party may start first. If the label party is listening, mend address, or let "
            "TCP through; a CONNECT proxy is not tried here.",
        )
    except CutlayerError as error:
        return fault("address", str(error))
    old = "TLSv1.2" in negotiated
    found = f"{configuration.meeting_point} answers, {negotiated}"
    return warning("address", found, "Let the label party update.") if old else ok("address", found)


def _certificate(subject: str, certificate: x509.Certificate, renewal: str) -> Check:
    """Fingerprint and last day."""
    ends = certificate.not_valid_after_utc
    found = f"valid until {ends:%Y-%m-%d}, fingerprint {fingerprint(certificate)}"
    left = ends - datetime.now(UTC)
    if left < timedelta(days=EXPIRY_DAYS):
        return warning(subject, f"ends in {left.days} days: {found}", f"In time: {renewal}.")
    return ok(subject, found)


def _checkpoints(store: CheckpointStore, released: int | None) -> Check:
    """The states that the run can be gone on with."""
    damaged = ", ".join(path.name for path in store.damaged)
    if store.steps and released is not None and max(store.steps) > released:
        return fault(
            "checkpoints",
            f"there is a state after step {max(store.steps)}, and the journal knows of {released} "
            "answered steps",
            "Put the journal back, or begin a run of another name.",
        )
    if damaged and not store.steps:
        return fault(
            "checkpoints",
            f"all are damaged: {damaged}",
            "Put sound ones back, or begin a run of another name.",
        )
    if damaged:
        return warning(
            "checkpoints",
            f"sound after steps {_steps(store)}; damaged: {damaged}",
            "Nothing; the run goes on from an older state, if the peer has it too.",
        )
    if not store.steps:
        return ok("checkpoints", "none yet: the run begins")
    return ok("checkpoints", f"sound after steps {_steps(store)}")


def _steps(store: CheckpointStore) -> str:
    """The steps as a text."""
    return ", ".join(f"{step:,}" for step in store.steps)


def _size(count: int) -> str:
    """Bytes for the eye."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
