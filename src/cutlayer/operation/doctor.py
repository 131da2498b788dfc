"""The doctor: everything that can be looked at before a run, without its peer taking notice."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from cutlayer.errors import ConfigurationError
from cutlayer.operation.checkup import Check, fault, ok
from cutlayer.operation.machine import (
    check_clock,
    check_entropy,
    check_tcp,
    check_threads,
    check_versions,
)
from cutlayer.operation.party_checks import (
    check_address,
    check_batches,
    check_crossing,
    check_file,
    check_identity,
    check_model,
    check_room,
    check_run_folder,
)
from cutlayer.operation.process_limits import check_descriptors
from cutlayer.protocol import Role
from cutlayer.runs.configuration import (
    FROZEN,
    LabelConfiguration,
    NonLabelConfiguration,
    PartyConfiguration,
    read_configuration,
    role_of,
)


def examine(config: Path, overrides: Mapping[str, str] | None = None) -> Iterator[Check]:
    """Look at one party's configuration, file, identity, run, disk, network and machine.

    Nothing is written, and the label party's session is not disturbed by the non-label party's
    trial handshake: no HELLO is sent.

    Args:
        config: the party's TOML file.
        overrides: as on the command line.

    Yields:
        One check after the other; a configuration that cannot be read ends the checkup.
    """
    yield check_versions()
    try:
        kind: type[PartyConfiguration] = (
            LabelConfiguration if role_of(config) is Role.LABEL else NonLabelConfiguration
        )
        configuration = read_configuration(kind, config, overrides)
    except ConfigurationError as error:
        yield fault("configuration", str(error))
        return
    yield ok("configuration", f"{config}: {configuration.role.value}, run {configuration.run}")
    identity_checks, identity = check_identity(configuration)
    yield from identity_checks
    if identity is not None or configuration.insecure_loopback:
        yield check_address(configuration, identity)
    yield check_model(configuration)
    file_checks, reading = check_file(configuration)
    yield from file_checks
    yield from check_run_folder(configuration)
    if reading is not None:
        yield check_batches(configuration, reading)
        yield check_room(configuration, reading)
        if isinstance(configuration, NonLabelConfiguration) and configuration.protection == FROZEN:
            yield check_crossing(configuration, reading)
    yield check_clock()
    yield check_threads(configuration.threads)
    yield check_tcp(far=not configuration.meeting_point.is_loopback)
    yield check_entropy()
    yield check_descriptors()
