"""The drop-ins in loops as people write them: what arrives at the bottom, and how often."""

import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from cutlayer import Isotropic, Marvell, MaxNorm, NoNoise, Residual, protect, protected_loss
from cutlayer.errors import NotFiniteError, ProtectionError
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


# --- Tops that change what they get in place -----------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        lambda z: torch.relu_(z),
        lambda z: z.add_(1.0),
        lambda z: z.mul_(2.0)[:, :4],
        lambda z: functional.dropout(z, 0.5, inplace=True),
        lambda z: functional.leaky_relu(z, 0.1, inplace=True),
        lambda z: z.clamp_(-1, 1),
    ],
    ids=["relu", "add", "mul", "dropout", "leaky_relu", "clamp"],
)
@pytest.mark.parametrize("bottom", [nn.Identity(), nn.Sigmoid()])
def test_the_top_may_change_the_activation_in_place(first, bottom):
    features, labels, weight = batch()
    gradients = []
    for copied in (lambda z: protect(z, labels, NoNoise()), torch.clone):
        torch.manual_seed(0)  # of the dropout
        features.grad = None
        activation = bottom(features)
        before = activation.detach().clone()
        changed = first(copied(activation))
        logit = changed @ weight[: changed.shape[1]]
        functional.binary_cross_entropy_with_logits(logit, labels.float()).backward()
        gradients.append(features.grad)
        assert torch.equal(activation, before)
    assert torch.equal(*gradients)


def test_labels_and_logits_may_change_between_forward_and_backward():
    activation, labels, weight = batch()
    clean = clean_gradient(activation, labels, weight)
    reused = labels.clone()
    z = protect(activation, reused, MaxNorm(), noise=SeededNoise(3))
    loss = functional.binary_cross_entropy_with_logits(z @ weight, labels.float())
    reused.zero_()
    loss.backward()
    assert torch.equal(activation.grad, MaxNorm().perturb(clean, labels, noise=SeededNoise(3)))
    logit = (activation @ weight).detach().requires_grad_()
    expected = Residual(sigma=2.0).noisy_residual(logit.detach(), labels, noise=SeededNoise(1))
    squashed, reused = logit.clone(), labels.clone()
    loss = protected_loss(squashed, reused, Residual(sigma=2.0), noise=SeededNoise(1))
    squashed.sigmoid_()
    reused.zero_()
    loss.backward()
    torch.testing.assert_close(logit.grad, expected / 64, rtol=1e-6, atol=0)


# --- Loss scalers ----------------------------------------------------------------------------


def trained(protection, scaler, *, use=None, steps=8, width=8):
    """Weights of a bottom after a loop in float16 as the torch documentation writes it."""
    g = torch.Generator().manual_seed(0)
    features, labels = torch.randn(64, 10, generator=g), torch.arange(64) % 2
    torch.manual_seed(0)
    bottom, top = nn.Linear(10, width), nn.Linear(width, 1)
    optimizer = torch.optim.SGD([*bottom.parameters(), *top.parameters()], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            z = protect(bottom(features), labels, protection, scaler=use)
            logit = top(z).squeeze(1).float()
            loss = functional.binary_cross_entropy_with_logits(logit, labels.float())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return bottom.weight.detach()


@pytest.mark.parametrize("make", [lambda: Isotropic(t=1.0), MaxNorm, lambda: Marvell(s=4.0)])
def test_an_overflow_lets_the_scaler_skip_the_step(make):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    weight = trained(make(), scaler, use=scaler)
    assert 1.0 <= scaler.get_scale() < 2.0**24
    assert weight.isfinite().all()


def test_an_overflow_is_the_same_in_all_rows_and_leaves_no_trace_in_the_averages():
    activation, labels, weight = batch()
    scaler = torch.amp.GradScaler("cpu")
    protection = Marvell(s=4.0)
    protect(activation, labels, protection).sum(1).dot(labels - 0.3).backward()
    before, activation.grad = protection.state(), None
    z = protect(activation, labels, protection, scaler=scaler)
    scale = torch.where(torch.arange(64) < 3, torch.inf, 1.0)
    ((z @ weight) * scale).sum().backward()
    assert torch.equal(activation.grad, torch.full_like(activation, torch.inf))
    after = protection.state()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("scaler", [None, torch.amp.GradScaler("cpu", enabled=False)])
def test_without_a_scaler_an_overflow_is_an_error_that_names_it(scaler):
    activation, labels, weight = batch()
    z = protect(activation, labels, MaxNorm(), scaler=scaler)
    with pytest.raises(NotFiniteError, match=r"GradScaler .* scaler="):
        (z @ weight * torch.inf).sum().backward()


def test_noise_that_overflows_float16_is_an_overflow_too():
    activation, labels, _ = batch()
    half = activation.detach().half().requires_grad_()
    scaler = torch.amp.GradScaler("cpu")
    z = protect(half, labels, Isotropic(t=1e6), scaler=scaler)
    (z * 1e3).sum().backward()
    assert torch.equal(half.grad, torch.full_like(half, torch.inf))


# --- Compiled code -----------------------------------------------------------------------------


@pytest.fixture
def compiler():
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, backend="eager")
    torch._dynamo.reset()


# torch itself reads .grad of what crosses the border of a graph.
GRAPH_BREAK = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)


@GRAPH_BREAK
@pytest.mark.parametrize("kind", ["protect", "protected_loss"])
def test_compiled_loops_draw_fresh_noise_and_learn_as_any_other(kind, compiler):
    features, labels, _ = batch()
    torch.manual_seed(0)
    bottom, top = nn.Linear(8, 4), nn.Linear(4, 1)

    def loss(noise=None):
        z = bottom(features)
        if kind == "protected_loss":
            return protected_loss(top(z).squeeze(1), labels, Residual(sigma=2.0), noise=noise)
        z = protect(z, labels, Isotropic(t=1.0), noise=noise)
        return functional.binary_cross_entropy_with_logits(top(z).squeeze(1), labels.float())

    def gradient(function, noise=None):
        bottom.weight.grad = None
        function(noise).backward()
        return bottom.weight.grad

    compiled = compiler(loss)
    draws = torch.stack([gradient(compiled) for _ in range(12)])
    assert all(not torch.equal(a, b) for a, b in pairwise(draws))
    torch.testing.assert_close(gradient(compiled, SeededNoise(1)), gradient(loss, SeededNoise(1)))


@GRAPH_BREAK
def test_compiled_autograd_draws_fresh_noise(compiler):
    activation, labels, weight = batch()
    draws = []
    with torch._dynamo.config.patch(compiled_autograd=True):

        @compiler
        def step():
            loss = (protect(activation, labels, Isotropic(t=1.0)) @ weight).square().mean()
            loss.backward()

        for _ in range(3):
            activation.grad = None
            step()
            draws.append(activation.grad.clone())
    assert not torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[1], draws[2])


def test_the_package_loads_no_compiler():
    code = "import sys, cutlayer.protections; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


# --- Batches and graphs of every kind ----------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 8), (0, 3, 4), (16, 0)])
def test_nothing_to_perturb_passes(shape):
    protection = Marvell(s=4.0)
    activation = torch.zeros(shape, requires_grad=True)
    labels = torch.zeros(shape[0], dtype=torch.long)
    protect(activation, labels, protection).sum().backward()
    assert activation.grad.shape == shape
    assert protection.state() == {}


def test_an_empty_batch_has_the_loss_of_torch_and_moves_no_weight():
    weight = torch.ones(4, requires_grad=True)
    loss = protected_loss(torch.zeros(0, 4) @ weight, torch.zeros(0), Residual(sigma=1.0))
    assert loss.isnan()  # as the mean over nothing is in torch
    loss.backward()
    assert torch.equal(weight.grad, torch.zeros(4))


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_forward_pass_perturbs_once(reentrant):
    activation, labels, _ = batch()

    def block(z):
        z = protect(z, labels, MaxNorm(), noise=SeededNoise(1))
        return protected_loss(z.sum(1), labels, Residual(sigma=1.0), noise=SeededNoise(2))

    gradients = []
    for run in (block, lambda z: checkpoint(block, z, use_reentrant=reentrant)):
        activation.grad = None
        run(activation).backward()
        gradients.append(activation.grad)
    assert torch.equal(*gradients)


def test_without_gradients_both_only_compute_values():
    activation, labels, weight = batch()
    with torch.no_grad():
        assert torch.equal(protect(activation, labels, MaxNorm()), activation)
        value = protected_loss(activation @ weight, labels, Residual(sigma=1.0))
    expected = functional.binary_cross_entropy_with_logits(activation @ weight, labels.float())
    assert torch.equal(value, expected)
    assert not protect(activation.detach(), labels, MaxNorm()).requires_grad


def test_activations_that_are_not_contiguous():
    activation, labels, weight = batch()
    clean = clean_gradient(activation, labels, weight)
    turned = activation.detach().t().contiguous().requires_grad_()
    z = protect(turned.t(), labels, MaxNorm(), noise=SeededNoise(3))
    functional.binary_cross_entropy_with_logits(z @ weight, labels.float()).backward()
    expected = MaxNorm().perturb(clean, labels, noise=SeededNoise(3))
    torch.testing.assert_close(turned.grad.t(), expected)


def test_one_protected_loss_has_one_draw_however_often_it_is_led_back():
    activation, labels, weight = batch()
    loss = protected_loss(activation @ weight, labels, Residual(sigma=1.0))
    first = torch.autograd.grad(loss, activation, retain_graph=True)[0]
    again = torch.autograd.grad(2 * loss, activation, create_graph=True)[0]
    torch.testing.assert_close(again, 2 * first)


def test_functional_gradients_are_perturbed_too():
    activation, labels, weight = batch()

    def loss(z):
        return (protect(z, labels, MaxNorm(), noise=SeededNoise(0)) @ weight).mean()

    expected = MaxNorm().perturb(
        (weight / 64).expand(64, 8).contiguous(), labels, noise=SeededNoise(0)
    )
    found = torch.func.grad(loss)(activation.detach())
    torch.testing.assert_close(found, expected)
