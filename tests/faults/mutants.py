"""Three deliberate bugs of the product. A kill must not go unnoticed with any of them."""

import os
from collections.abc import Callable

import torch

from cutlayer.parties import NonLabelParty, ReleaseJournal
from cutlayer.rng import SecretNoise


def fresh_noise_on_resend() -> None:
    """The label party forgets the key of its noise, and draws anew for a step that it repeats."""
    SecretNoise.for_release = lambda self, step, *values: SecretNoise()
    SecretNoise.for_visit = lambda self, visit, marks, scale: SecretNoise()


def equivocating_peer() -> None:
    """The non-label party sends slightly other activations after each start."""
    flat = NonLabelParty._flat
    nudge = 1e-6 * (1 + int.from_bytes(os.urandom(2), "little"))

    def nudged(self: NonLabelParty, activation: torch.Tensor, rows: int) -> torch.Tensor:
        return flat(self, activation, rows) + nudge

    NonLabelParty._flat = nudged


def no_journal() -> None:
    """The label party answers without putting it on record."""
    ReleaseJournal.settle = lambda self, step, request, reply: True


MUTANTS: dict[str, Callable[[], None]] = {
    "fresh noise on resend": fresh_noise_on_resend,
    "equivocating peer": equivocating_peer,
    "no journal": no_journal,
}
