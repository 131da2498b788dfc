import pytest
import torch
from torch import nn

from cutlayer.models import ConvTop, conv_blocks


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_papers_cut_of_an_84_pixel_image_is_5_by_5():
    # 84 -> 42 -> 21 -> 10 -> 5: 64 channels of 5x5, 1600 numbers
    bottom = conv_blocks(3, 64, 4, generator())
    activation = bottom(torch.randn(2, 3, 84, 84, generator=generator(1)))
    assert activation.shape == (2, 64, 5, 5)
    top = ConvTop((64, 5, 5), 0, 2, [64], generator())
    assert top(activation.flatten(1), torch.zeros(2, 0)).shape == (2,)


def test_blocks_are_convolution_relu_pooling():
    blocks = conv_blocks(1, 2, 1, generator())
    image = torch.randn(3, 1, 6, 6, generator=generator(2))
    layer = blocks[0]
    by_hand = nn.functional.conv2d(image, layer.weight, layer.bias, padding=1).clamp(min=0)
    pooled = by_hand.unfold(2, 2, 2).unfold(3, 2, 2).amax(dim=(-1, -2))
    assert torch.allclose(blocks(image), pooled, atol=1e-6)


def test_own_numbers_enter_the_head():
    top = ConvTop((2, 4, 4), 3, 0, [8], generator())
    activation, own = torch.randn(5, 32), torch.randn(5, 3)
    assert not torch.equal(top(activation, own), top(activation, own + 1))


def test_what_leaves_no_pixel_is_refused():
    with pytest.raises(ValueError, match="pixel"):
        ConvTop((2, 3, 3), 0, 2, [8], generator())
    with pytest.raises(ValueError, match="blocks"):
        conv_blocks(3, 4, 0, generator())
