"""The halves of a sweep's model, and the optimizer that regularises the right part of them."""

import re
from dataclasses import dataclass, field

import torch
from torch import nn

from cutlayer.data import LABEL_PARTY, NON_LABEL_PARTY
from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.configuration import TradeoffConfiguration
from cutlayer.models import (
    CodedColumns,
    Columns,
    ConvTop,
    OneHotColumns,
    RowAdam,
    Top,
    WideDeepBottom,
    WideDeepTop,
    conv_blocks,
    mlp,
)
from cutlayer.parties import InputShape
from cutlayer.rng import derived_seed
from cutlayer.transcript import first_layer_gradient

PAPER_CUT = 128
"""Width of the deep part's cut in the paper's Wide & Deep."""
_PAPER_EMBEDDING_DECAY = 0.02
_PAPER_CONVOLUTION_DECAY = 0.004
_PAPER_EMBEDDINGS = re.compile(r"\.tables\.|vectors\.weight|^wide\.weight")
# Keras adds L2 * ||w||^2 to the loss, whose gradient is 2 * L2 * w: twice the paper's 0.01, 0.002.


@dataclass(frozen=True)
class Sizes:
    """What a model is built from."""

    kind: str
    """``mlp``, ``wide_deep``, ``coded`` (Wide & Deep on prepared codes) or ``cnn``."""
    hidden_bottom: tuple[int, ...]
    hidden_top: tuple[int, ...]
    cut_width: int
    channels: int = 0
    blocks: tuple[int, int] = (0, 0)
    cut_shape: tuple[int, int, int] = (0, 0, 0)
    """Of a CNN's cut: channels, height, width."""
    codes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of prepared tables: how many codes each column of codes has, by party."""

    @property
    def is_wide_deep(self) -> bool:
        """Whether one number of the cut is a wide logit."""
        return self.kind in ("wide_deep", "coded")


def sizes_of(
    configuration: TradeoffConfiguration,
    shape: tuple[int, ...],
    codes: dict[str, tuple[int, ...]] | None = None,
) -> Sizes:
    """The model's sizes for records of one shape.

    Args:
        configuration: of the sweep.
        shape: of one record of the non-label party; ``(columns,)`` or
            ``(channels, height, width)``.
        codes: of prepared tables, how many codes each column of codes has, by party.

    Raises:
        ConfigurationError: the blocks leave nothing of the image.
    """
    c, image, paper = configuration, len(shape) == 3, configuration.model == "paper"
    if not image:
        kind = "coded" if codes else "wide_deep" if paper else c.model
        if paper:
            layers = (PAPER_CUT,) * 3
            return Sizes(kind, layers[:2], layers, PAPER_CUT + 1, codes=codes or {})
        return Sizes(kind, c.hidden, c.hidden, c.cut_width, codes=codes or {})
    channels, blocks = (64, (4, 2)) if paper else (c.channels, c.blocks)
    height, width = shape[1] >> blocks[0], shape[2] >> blocks[0]
    if not (height >> blocks[1] and width >> blocks[1]):
        raise ConfigurationError(
            f"blocks: {blocks[0]} and {blocks[1]} leave nothing of images of {shape[1]}x{shape[2]}."
        )
    hidden = (64,) if paper else c.hidden
    cut_shape = (channels, height, width)
    return Sizes("cnn", (), hidden, channels * height * width, channels, blocks, cut_shape)


@dataclass
class Halves:
    """Builds both halves of one run. Initial weights depend on the seed, not on the protection."""

    configuration: TradeoffConfiguration
    sizes: Sizes
    seed: int
    _decayed: dict[int, float] = field(default_factory=dict)

    def bottom(self, own: InputShape) -> nn.Module:
        """The non-label party's half."""
        sizes, generator = self.sizes, self.generator("bottom")
        if sizes.kind == "cnn":
            convolutions = conv_blocks(own.shape[0], sizes.channels, sizes.blocks[0], generator)
            return self._regularised(convolutions)
        if sizes.is_wide_deep:
            columns = self._columns(own, NON_LABEL_PARTY)
            return self._regularised(
                WideDeepBottom(columns, sizes.cut_width, sizes.hidden_bottom, generator)
            )
        return mlp([own.width, *sizes.hidden_bottom, sizes.cut_width], generator)

    def top(self, name: str, cut_width: int, own: InputShape) -> nn.Module:
        """The label party's half; called twice where the protection has two heads."""
        # The top that predicts begins alike under every protection, so that runs can be paired.
        purpose = "top" if name == "prediction_top" else name
        sizes, generator = self.sizes, self.generator(purpose)
        if sizes.kind == "cnn":
            return self._regularised(
                ConvTop(sizes.cut_shape, own.width, sizes.blocks[1], sizes.hidden_top, generator)
            )
        if sizes.is_wide_deep:
            columns = self._columns(own, LABEL_PARTY)
            return self._regularised(WideDeepTop(cut_width, columns, sizes.hidden_top, generator))
        return Top(cut_width, own.width, sizes.hidden_top, generator)

    def optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam; with ``model = "paper"`` only what the paper regularises decays."""
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in parameters:
            decay = self._decayed.get(id(parameter), self._other_decay)
            groups.setdefault(decay, []).append(parameter)
        return RowAdam(
            [{"params": group, "weight_decay": decay} for decay, group in groups.items()],
            lr=self.configuration.learning_rate,
        )

    def generator(self, purpose: str) -> torch.Generator:
        """Randomness for one purpose."""
        return torch.Generator().manual_seed(self.derived_seed(purpose))

    def derived_seed(self, purpose: str) -> int:
        """A seed for one purpose of this run's seed."""
        return derived_seed("tradeoff", self.seed, purpose)

    def _columns(self, own: InputShape, party: str) -> Columns:
        """What a Wide & Deep half of one party reads."""
        if self.sizes.kind == "coded":
            codes = self.sizes.codes[party]
            return CodedColumns(own.width - len(codes), codes)
        return OneHotColumns(own.width, own.categories)

    @property
    def _other_decay(self) -> float:
        """Decay of all that has none of its own."""
        return 0.0 if self.configuration.model == "paper" else self.configuration.weight_decay

    def _regularised(self, half: nn.Module) -> nn.Module:
        """Note which weights the paper regularises: embeddings, or convolution kernels."""
        if self.configuration.model != "paper":
            return half
        for name, parameter in half.named_parameters():
            if _PAPER_EMBEDDINGS.search(name):
                self._decayed[id(parameter)] = _PAPER_EMBEDDING_DECAY
            elif parameter.ndim == 4:
                self._decayed[id(parameter)] = _PAPER_CONVOLUTION_DECAY
        return half


def first_layer_of(
    bottom: nn.Module, features: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """The gradient at the first layer: of Wide & Deep, the first hidden layer of the deep part.

    Its embeddings come before, but a row of theirs belongs to one column only. The paper looks
    at the first hidden layer too.

    Args:
        bottom: with the weights of the step.
        features: inputs of the rows.
        gradient: at the cut; of Wide & Deep, of the deep part or with the wide logit behind it.
    """
    if not isinstance(bottom, WideDeepBottom):
        return first_layer_gradient(nn.Sequential(bottom, nn.Flatten()), features, gradient)
    with torch.no_grad():
        embedded = bottom.embedded(features)
    deep_width = bottom.deep[-1].out_features
    return first_layer_gradient(bottom.deep, embedded, gradient[:, :deep_width])
