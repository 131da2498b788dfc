import pytest
import torch
from torch.nn import functional

from cutlayer import Isotropic, Marvell, MaxNorm, NoNoise, Residual, protect, protected_loss
from cutlayer.errors import ProtectionError
from cutlayer.rng import SeededNoise


def batch(examples=64, width=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    activation = torch.randn(examples, width, generator=g).requires_grad_()
    labels = (torch.rand(examples, generator=g) < 0.3).long()
    weight = torch.randn(width, generator=g)
    return activation, labels, weight


def clean_gradient(activation, labels, weight):
    loss = functional.binary_cross_entropy_with_logits(activation @ weight, labels.float())
    return torch.autograd.grad(loss, activation)[0]


def test_protect_is_the_identity_forward_and_perturbs_backward_as_the_protection_does():
    activation, labels, weight = batch()
    clean = clean_gradient(activation, labels, weight)
    protected = protect(activation, labels, MaxNorm(), noise=SeededNoise(3))
    assert torch.equal(protected, activation)
    functional.binary_cross_entropy_with_logits(protected @ weight, labels.float()).backward()
    expected = MaxNorm().perturb(clean, labels, noise=SeededNoise(3))
    assert torch.equal(activation.grad, expected)


def test_no_noise_leaves_the_gradient_bit_for_bit():
    activation, labels, weight = batch()
    clean = clean_gradient(activation, labels, weight)
    z = protect(activation, labels, NoNoise())
    functional.binary_cross_entropy_with_logits(z @ weight, labels.float()).backward()
    assert torch.equal(activation.grad, clean)


def test_the_top_learns_from_the_clean_loss():
    activation, labels, weight = batch()
    top = weight.clone().requires_grad_()
    functional.binary_cross_entropy_with_logits(activation @ top, labels.float()).backward()
    clean = top.grad.clone()
    top.grad = None
    z = protect(activation, labels, Isotropic(t=5.0))
    functional.binary_cross_entropy_with_logits(z @ top, labels.float()).backward()
    assert torch.equal(top.grad, clean)


@pytest.mark.parametrize("shape", [(16, 3, 4, 4), (16, 5, 2), (16, 1)])
def test_activations_of_any_shape(shape):
    activation = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(16) % 2
    z = protect(activation, labels, MaxNorm())
    loss = functional.binary_cross_entropy_with_logits(z.flatten(1).sum(1), labels.float())
    loss.backward()
    assert activation.grad.shape == shape


def test_two_calls_never_share_noise_and_one_graph_never_draws_twice():
    activation, labels, weight = batch()

    def gradient():
        z = protect(activation, labels, Isotropic(t=1.0))
        loss = functional.binary_cross_entropy_with_logits(z @ weight, labels.float())
        first = torch.autograd.grad(loss, activation, retain_graph=True)[0]
        again = torch.autograd.grad(loss, activation, retain_graph=True)[0]
        assert torch.equal(first, again)
        with pytest.raises(ProtectionError, match="second backward"):
            torch.autograd.grad(2 * loss, activation)
        return first

    assert not torch.equal(gradient(), gradient())


def test_marvell_keeps_its_averages_over_a_loop():
    activation, labels, weight = batch()
    protection = Marvell(s=4.0)
    for lone in (False, True):  # the second batch has one class; the averages know the other
        y = torch.zeros_like(labels) if lone else labels
        z = protect(activation, y, protection)
        functional.binary_cross_entropy_with_logits(z @ weight, y.float()).backward()
    assert torch.isfinite(activation.grad).all()


def test_wrong_stages_and_labels_are_refused():
    activation, labels, weight = batch()
    with pytest.raises(ValueError, match="protected_loss"):
        protect(activation, labels, Residual(sigma=1.0))
    with pytest.raises(ValueError, match="use protect"):
        protected_loss(activation @ weight, labels, MaxNorm())
    with pytest.raises(ValueError, match="0 and 1"):
        protect(activation, labels * 2, MaxNorm())
    with pytest.raises(ValueError, match="shape"):
        protect(activation, labels[:-1], MaxNorm())
    with pytest.raises(ValueError, match="logit"):
        protected_loss(activation, labels, Residual(sigma=1.0))


def test_a_gradient_with_nan_is_refused_in_the_backward_pass():
    activation, labels, weight = batch()
    z = protect(activation, labels, MaxNorm())
    loss = (z @ weight).sum() * torch.nan
    with pytest.raises(ProtectionError, match="64 of 64 rows"):
        loss.backward()


def test_protected_loss_has_the_clean_value_and_the_noisy_gradient():
    activation, labels, weight = batch()
    logit = (activation @ weight).detach().requires_grad_()
    protection = Residual(sigma=2.0)
    loss = protected_loss(logit, labels, protection, noise=SeededNoise(1))
    clean = functional.binary_cross_entropy_with_logits(logit, labels.float())
    assert loss.item() == pytest.approx(clean.item(), rel=1e-6)
    loss.backward()
    residual = protection.noisy_residual(logit.detach(), labels, noise=SeededNoise(1))
    assert torch.allclose(logit.grad, residual / len(labels), rtol=1e-6, atol=0)


def test_a_loss_scaler_scales_gradient_and_noise_alike():
    activation, labels, weight = batch()
    logit = (activation @ weight).detach().requires_grad_()
    gradients = []
    for scale in (1.0, 1024.0):
        loss = protected_loss(logit, labels, Residual(sigma=2.0), noise=SeededNoise(1))
        gradients.append(torch.autograd.grad(scale * loss, logit)[0] / scale)
    assert torch.equal(*gradients)


def test_protected_loss_is_unbiased():
    # Mean over n draws of c_i / B has standard error sigma / (B sqrt(n)); five of them.
    logit = torch.tensor([0.5, -1.0]).requires_grad_()
    labels = torch.tensor([1, 0])
    source, n, sigma = SeededNoise(0), 4000, 2.0
    total = torch.zeros(2)
    for _ in range(n):
        loss = protected_loss(logit, labels, Residual(sigma=sigma), noise=source)
        total += torch.autograd.grad(loss, logit)[0]
    clean = torch.autograd.grad(
        functional.binary_cross_entropy_with_logits(logit, labels.float()), logit
    )[0]
    assert torch.all((total / n - clean).abs() <= 5 * sigma / (2 * n**0.5))
