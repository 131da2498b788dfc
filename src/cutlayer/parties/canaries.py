"""Canaries: records whose label is a coin, so that only the messages can tell it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer.errors import ConfigurationError
from cutlayer.rng import NoiseSource


@dataclass(frozen=True)
class Canaries:
    """Training labels with coins in some places, and which places those are."""

    training_labels: Tensor
    """Labels that are trained on, by record number, int64; true ones where there is no canary."""
    mask: Tensor
    """True where the label is a coin, bool by record number."""


def plant_canaries(labels: Tensor, train: Tensor, count: int, noise: NoiseSource) -> Canaries:
    """Give a random subset of the training records independent fair coins for labels.

    What an attack tells about the coins, beyond 0.5, came through the messages: features cannot
    tell a coin.

    Args:
        labels: true labels by record number, 0 or 1.
        train: record numbers of the training records.
        count: how many of them become canaries, from 0.
        noise: where subset and coins are drawn from.

    Raises:
        ConfigurationError: fewer training records than canaries.
    """
    if not 0 <= count <= len(train):
        raise ConfigurationError(
            f"label party: canaries must lie between 0 and the {len(train)} training records, "
            f"got {count}."
        )
    planted, mask = labels.clone(), torch.zeros(len(labels), dtype=torch.bool)
    chosen = train[noise.normal(len(train)).argsort()[:count]]
    planted[chosen] = (noise.normal(count) > 0).long()
    mask[chosen] = True
    return Canaries(planted, mask)
