"""Convolutional halves for images: blocks of convolution, ReLU and pooling on both sides."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from cutlayer import check
from cutlayer.models.initial_weights import drawn
from cutlayer.models.mlp import mlp


def conv_blocks(
    channels_in: int, channels: int, blocks: int, generator: torch.Generator
) -> nn.Sequential:
    """Blocks of 3x3 convolution (same size), ReLU and 2x2 max-pooling.

    Args:
        channels_in: of the image.
        channels: of every block's output.
        blocks: how many; each halves height and width, rounding down.
        generator: of the initial weights.

    Raises:
        ValueError: a number is below 1.
    """
    for name, value in (("channels_in", channels_in), ("channels", channels), ("blocks", blocks)):
        check.at_least(name, value, 1)
    layers: list[nn.Module] = []
    for block in range(blocks):
        inputs = channels if block else channels_in
        convolution = nn.Conv2d(inputs, channels, kernel_size=3, padding=1, device="meta")
        layers += [drawn(convolution, generator), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers)


class ConvTop(nn.Module):
    """The label party's half of an image model.

    Args:
        cut_shape: of one record's activation: channels, height, width.
        own_width: numbers that the label party adds to the flattened images; 0 for none.
        blocks: convolution blocks before the images are flattened.
        hidden: widths of the hidden layers after that.
        generator: of the initial weights.

    Raises:
        ValueError: nothing is left of the image after the blocks.
    """

    def __init__(
        self,
        cut_shape: tuple[int, int, int],
        own_width: int,
        blocks: int,
        hidden: Sequence[int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        channels, height, width = cut_shape
        left = (height >> blocks) * (width >> blocks)
        if left < 1:
            raise ValueError(
                f"blocks must leave a pixel of an activation of {height}x{width}, got {blocks}."
            )
        self._cut_shape = cut_shape
        self.blocks = (
            conv_blocks(channels, channels, blocks, generator) if blocks else nn.Identity()
        )
        self.head = mlp([channels * left + own_width, *hidden, 1], generator)

    @override
    def forward(self, activation: Tensor, own_features: Tensor) -> Tensor:
        """Logits of the positive class, shape ``(examples,)``.

        Args:
            activation: of the cut, ``(examples, channels * height * width)``.
            own_features: of the label party, ``(examples, own_width)``.
        """
        images = self.blocks(activation.reshape(-1, *self._cut_shape)).flatten(1)
        return self.head(torch.cat([images, own_features], dim=1)).squeeze(1)
