"""Terms: every setting that both parties must share, compared before the first step."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import torch

from cutlayer import check
from cutlayer.data.schedule import BatchSchedule, MicroBatch, require_room_for_parts
from cutlayer.errors import ConfigurationError, TermsMismatchError
from cutlayer.protocol.messages import JsonScalar, Role

Mode = Literal["loop", "one round", "prediction", "alignment"]
"""``loop``: activations go over and gradients come back, batch after batch. ``one round``: the
activations of a frozen bottom go over once, and nothing comes back. ``prediction``: activations of
a trained bottom go over once, for records to predict. ``alignment``: nothing is trained; the
parties find their shared records by private matching."""

MOST_EPOCHS = 1_000_000
"""More is a slip of the pen, and would be planned for before the first step."""

MOST_RECORDS = 1 << 31
"""No batch and no count of batches is larger."""

AlignmentForm = Literal["digests", "private", "given"]
"""``digests``: the handshake matches keyed digests of the ids. ``private``: a session before found
the shared ids by private matching. ``given``: both parties bring exactly the same ids."""

Order = Literal["seed", "nonces"]
Wire = Literal["float32", "bfloat16"]
_WIRE = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_CHOICES = {
    "mode": get_args(Mode),
    "alignment": get_args(AlignmentForm),
    "order": get_args(Order),
    "wire": get_args(Wire),
}


@dataclass(frozen=True)
class Terms:
    """What the parties agree on. Nothing here is secret, and nothing depends on labels.

    Raises:
        ValueError: a number is out of range.
    """

    run: str
    """Name of the run; ties every message to it."""
    data: str
    """Name of the data set, so that two halves of different sets are not joined by mistake."""
    protection: str
    """Name and strength of the protection, as the reports show them."""
    mode: Mode = "loop"
    epochs: int = 20
    """Passes over the training records; the number of releases of each record."""
    batch_size: int = 512
    """Smallest number of records of one update of the weights."""
    cut_width: int = 32
    """Numbers of one record's activation, whatever its shape."""
    seed: int = 0
    """For the batch order and the split. Known to both, so never used for noise or weights."""
    folds: int = 0
    """0: split by shares. Else the records are cut into so many parts by a hash of their ids."""
    test_fold: int = 0
    """With folds: the part that is kept for the test."""
    validation_share: float = 0.1
    """Without folds: expected share of the validation records."""
    test_share: float = 0.2
    """Without folds: expected share of the test records."""
    grouped: bool = False
    """Whether groups of records, instead of single ones, are kept together in the split."""
    alignment: AlignmentForm = "digests"
    """How the parties find their shared records."""
    order: Order = "seed"
    """What the batch order is drawn from: ``seed`` alone, or ``nonces`` of both parties as well, so
    that neither can choose who meets whom."""
    checkpoint_every: int = 100
    """Updates between two checkpoints inside an epoch; each epoch ends with one."""
    staleness: int = 0
    """How many updates the activations may lag behind: 0 waits for each reply. The same for every
    link, so the trained weights do not depend on it."""
    micro_batches: int = 1
    """Into how many messages the records of one update are cut; all of them may be on their way
    at once. Each is weighted by its share of the rows, so the update is that of the whole batch,
    but for the noise: ``isotropic``, ``max_norm`` and ``marvell`` fit it to the rows of a message.
    """
    wire: Wire = "float32"
    """Number format of activations and gradients between the parties."""

    def __post_init__(self) -> None:
        for name, low in (
            ("epochs", 1),
            ("batch_size", 2),
            ("cut_width", 1),
            ("seed", 0),
            ("folds", 0),
            ("test_fold", 0),
            ("checkpoint_every", 1),
            ("staleness", 0),
        ):
            check.at_least(name, getattr(self, name), low)
        if self.epochs > MOST_EPOCHS:
            raise ValueError(f"epochs must be at most {MOST_EPOCHS:,}, got {self.epochs:,}.")
        for name in ("batch_size", "checkpoint_every"):
            if getattr(self, name) > MOST_RECORDS:
                raise ValueError(
                    f"{name} must be at most {MOST_RECORDS:,}, got {getattr(self, name):,}."
                )
        require_room_for_parts(self.batch_size, self.micro_batches)
        if self.folds == 1 or (self.folds and self.test_fold >= self.folds):
            raise ValueError(
                f"test_fold must be below folds, and folds at least 2, got test_fold = "
                f"{self.test_fold} with folds = {self.folds}."
            )
        check.not_negative("validation_share", self.validation_share)
        check.between("test_share", self.test_share, 0.0, 1.0)
        check.between(
            "validation_share + test_share", self.validation_share + self.test_share, 0, 1
        )
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}.")

    @property
    def wire_dtype(self) -> torch.dtype:
        """Torch's name for :attr:`wire`."""
        return _WIRE[self.wire]

    @property
    def most_in_flight(self) -> int:
        """How many activations may wait for their gradients at once."""
        return (self.staleness + 1) * self.micro_batches

    def schedule(self, records: int, order_seed: int, own_role: Role) -> BatchSchedule:
        """The order of the messages.

        Args:
            records: how many train.
            order_seed: what the parties agreed to draw the order from.
            own_role: who asks, for the message.

        Raises:
            ConfigurationError: there are fewer records than ``batch_size``.
        """
        try:
            return BatchSchedule(
                records, self.batch_size, self.epochs, order_seed, self.micro_batches
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{own_role.value}: {error}") from error

    def keeps_after(self, part: MicroBatch, batches_per_epoch: int) -> bool:
        """Whether both parties settle and keep their state after this message."""
        done = part.batch % batches_per_epoch + 1
        return part.completes and (done == batches_per_epoch or done % self.checkpoint_every == 0)

    @property
    def meaning(self) -> str:
        """A hash of all that a step's number depends on; more epochs do not change it."""
        return hashlib.sha256(json.dumps(self.lasting_fields, sort_keys=True).encode()).hexdigest()

    @property
    def lasting_fields(self) -> dict[str, JsonScalar]:
        """What must be the same at every start of a run: all but the epochs."""
        return {name: value for name, value in self.as_fields().items() if name != "epochs"}

    def as_fields(self) -> dict[str, JsonScalar]:
        """The terms as they go into HELLO."""
        return asdict(self)

    def require_equal(self, theirs: dict[str, JsonScalar], own_role: Role) -> None:
        """Compare with the peer's terms.

        Raises:
            TermsMismatchError: a field differs; names it and both values.
        """
        for name, own in self.as_fields().items():
            if name not in theirs:
                found = "missing"
            elif theirs[name] != own or isinstance(theirs[name], bool) != isinstance(own, bool):
                found = repr(theirs[name])  # to Python, true equals 1
            else:
                continue
            raise TermsMismatchError(
                f"{own_role.value}: {name} is {own!r} here and {found} at the "
                f"{own_role.peer.value}. Start both parties with the same value."
            )
