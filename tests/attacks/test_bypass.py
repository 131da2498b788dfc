import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from cutlayer.attacks import bypasses, direct_sign
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.protections.drop_in import protect
from cutlayer.protections.marvell import Marvell


def sent(examples=6):
    return {"deep": torch.ones(examples, 3), "wide": torch.ones(examples, 1)}


def test_every_path_through_the_cut_is_no_bypass():
    top = nn.Linear(3, 1)
    assert bypasses(lambda got: top(got["deep"]), sent(), "deep") == ()


def test_a_path_that_is_cut_off_is_no_bypass():
    top = nn.Linear(3, 1)
    logit = bypasses(lambda got: top(got["deep"]) + got["wide"].detach(), sent(), "deep")
    assert logit == ()


def test_a_path_counts_even_where_its_derivative_is_zero():
    top = nn.Linear(3, 1)
    found = bypasses(lambda got: top(got["deep"]) + torch.relu(got["wide"] - 9), sent(), "deep")
    assert found == ("wide",)


def test_what_comes_back_along_a_bypass_is_the_label():
    # A wide logit beside a deep part under Marvell: the deep gradient is perturbed in vain.
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(200, generator=generator) < 0.3).long()
    tensors = {
        "deep": torch.randn(200, 3, generator=generator, requires_grad=True),
        "wide": torch.randn(200, 1, generator=generator, requires_grad=True),
    }
    top = nn.Linear(3, 1)

    def logit_of(got):
        return (top(protect(got["deep"], labels, Marvell(s=16.0))) + got["wide"])[:, 0]

    assert bypasses(logit_of, tensors, "deep") == ("wide",)
    binary_cross_entropy_with_logits(logit_of(tensors), labels.float()).backward()
    assert leak_auc(direct_sign(tensors["wide"].grad), labels) == 1.0


@pytest.mark.parametrize(
    ("logit_of", "protected", "message"),
    [
        (lambda got: got["deep"].sum(dim=1), "cut", "one of deep, wide, got 'cut'"),
        (lambda got: got["wide"][:, 0], "deep", "must depend on 'deep'"),
        (lambda got: got["wide"].detach(), "deep", "must depend on 'deep'"),
    ],
)
def test_a_check_of_nothing_is_refused(logit_of, protected, message):
    with pytest.raises(ValueError, match=message):
        bypasses(logit_of, sent(), protected)
