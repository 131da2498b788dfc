"""Every exception of cutlayer, sorted by what the reader can do about it.

::

    CutlayerError
    ├── ConfigurationError   an option or a setting is wrong: change it and start again
    │   ├── UnknownNameError a name that no table holds; the message lists the known ones
    │   └── MissingExtraError  a package is not installed; the message has the pip line
    ├── DataError            a table or a column is wrong: mend the file
    ├── StorageError         the disk is full or broken: give it room and start again
    ├── ProtectionError      a protection cannot be applied, so nothing was sent
    │   └── NotFiniteError   a logit or a gradient is NaN or infinite
    ├── LeakStopError        the live audit ended the training, as its operator had asked
    ├── ProtocolError        the peer sent something that the protocol does not allow
    │   └── TermsMismatchError  the two parties were started with different settings
    └── ConnectionLostError  the peer is gone or silent
        ├── DeadlineError    the peer did not answer in time
        ├── PeerRefusedError the two identities do not fit, or one of them is not known
        └── PeerEndedError   the peer ended the session and said so

A wrong *argument* of a function is a plain ``ValueError`` from :mod:`cutlayer.check`.
"""


class CutlayerError(Exception):
    """Root of all errors that cutlayer raises on purpose."""


class ConfigurationError(CutlayerError):
    """An option or setting breaks a rule; the message names it, the rule and the fix."""


class UnknownNameError(ConfigurationError):
    """No entry of this name exists; the message lists the known names."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class DataError(CutlayerError):
    """A table, a column or a record breaks a rule; the message names party, column and fix."""


class StorageError(CutlayerError):
    """A file cannot be written or read; what depends on it was not done."""


class ProtectionError(CutlayerError):
    """A protection cannot be applied to this batch; it refuses, and nothing is sent."""


class NotFiniteError(ProtectionError):
    """A logit or a gradient holds NaN or infinity, before or after its noise."""


class LeakStopError(CutlayerError):
    """The live audit read more than the label party's operator allows; nothing is guaranteed."""


class ProtocolError(CutlayerError):
    """The peer's bytes or their order are not what the protocol allows."""


class TermsMismatchError(ProtocolError):
    """The parties' settings differ; the message names the field and both values."""


class ConnectionLostError(CutlayerError):
    """The connection to the peer ended before the session did."""


class DeadlineError(ConnectionLostError):
    """The peer stayed silent for longer than the agreed deadline."""


class PeerRefusedError(ConnectionLostError):
    """Someone answered, but one side did not accept the other's identity."""


class PeerEndedError(ConnectionLostError):
    """The peer ended the session on purpose."""

    def __init__(self, message: str, *, stopped: bool) -> None:
        super().__init__(message)
        self.stopped = stopped
        """True where its operator stopped it, false where it met an error."""
