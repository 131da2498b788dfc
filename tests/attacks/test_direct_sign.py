import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from cutlayer.attacks import direct_classes, direct_sign
from cutlayer.leakage.leak_auc import leak_auc
from tests.attacks.two_classes import gaussian_classes


def test_a_logit_gives_every_label_away():
    _, labels = gaussian_classes(500, 2, gap=1.0, share=0.3, seed=0)
    logit = torch.randn(500, 1, generator=torch.Generator().manual_seed(1), requires_grad=True)
    binary_cross_entropy_with_logits(logit[:, 0], labels.float()).backward()
    assert leak_auc(direct_sign(logit.grad), labels) == 1.0
    assert ((direct_sign(logit.grad) > 0) == (labels == 1)).all()


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_class_logits_give_every_label_away(classes):
    generator = torch.Generator().manual_seed(classes)
    labels = torch.randint(classes, (400,), generator=generator)
    logits = torch.randn(400, classes, generator=generator, requires_grad=True)
    cross_entropy(logits, labels).backward()
    assert torch.equal(direct_classes(logits.grad), labels)
    last = (labels == classes - 1).long()
    assert leak_auc(direct_sign(logits.grad), last) == 1.0


def test_a_logit_that_bypasses_the_top_beside_a_protected_deep_part():
    _, labels = gaussian_classes(500, 2, gap=1.0, share=0.3, seed=2)
    generator = torch.Generator().manual_seed(3)
    wide = (0.3 - labels.double())[:, None]
    noise = torch.randn(500, 7, generator=generator, dtype=torch.float64)
    assert leak_auc(direct_sign(torch.cat([noise, wide], dim=1)), labels) == 1.0
    assert leak_auc(direct_sign(torch.cat([wide, noise], dim=1)), labels) < 0.6  # no logit there


def test_no_negative_entry_is_no_softmax():
    assert direct_classes(torch.tensor([[0.0, 0.5]])).tolist() == [-1]
