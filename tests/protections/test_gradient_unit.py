"""Changes of the unit of gradients: noticed where they are certain, and nowhere else."""

import math

import numpy as np
import pytest
import torch

from cutlayer import Marvell, protect
from cutlayer.protections.gradient_unit import GradientUnit, sizes_of
from cutlayer.rng import SecretNoise, SeededNoise


def residuals(rows, share, source):
    """Residuals of a trained top, which vary by a factor of ten within a class, and labels."""
    labels = torch.from_numpy((source.random(rows) < share).astype(np.int64))
    logit = -3 + 1.2 * source.normal(size=rows) + labels.numpy()
    return torch.from_numpy(1 / (1 + np.exp(-logit)) - labels.numpy()), labels


def sizes(rows=128, share=0.1, *, source, scale=1.0):
    residual, labels = residuals(rows, share, source)
    return sizes_of(residual.abs() * scale, labels)


def noticed(factors, *, rows=128, seed=0, share=0.1):
    """Product of all changes over batches whose gradients are scaled by these factors."""
    source, unit, product = np.random.default_rng(seed), GradientUnit(), 1.0
    for factor in factors:
        product *= unit.change(sizes(rows, share, source=source, scale=factor))
    return product


def test_equal_rows_give_the_factor_itself():
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 0, 1])
    unit = GradientUnit()
    assert unit.change(sizes_of(torch.full((8,), 3.0, dtype=torch.float64), labels)) == 1.0
    found = unit.change(sizes_of(torch.full((8,), 6.0, dtype=torch.float64), labels))
    assert found == pytest.approx(2.0, rel=1e-12)
    assert unit.change(sizes_of(torch.full((8,), 6.0, dtype=torch.float64), labels)) == 1.0


@pytest.mark.parametrize("factor", [2.0, 0.5, 4.0, 64.0, 1e-3, 2.0**16, 1e-12])
@pytest.mark.parametrize("rows", [64, 512])
def test_a_jump_is_noticed_once_and_about_right(factor, rows):
    for seed in range(10):
        found = noticed([1, 1, 1, 1, factor, factor, factor, factor], rows=rows, seed=seed)
        # Log sizes vary by less than 1.2 within a class; three to one batches are compared.
        error = 1.2 * math.sqrt(2 / rows)
        assert abs(math.log(found / factor)) <= 5 * error


def test_jumps_there_and_back_cancel():
    for seed in range(10):
        found = noticed([1, 1, 1, 64, 64, 1, 1, 1 / 64, 1 / 64, 1, 1], seed=seed)
        assert abs(math.log(found)) <= 5 * 1.2 * math.sqrt(2 * 4 / 128)


def test_a_constant_unit_is_left_alone():
    assert all(noticed([1] * 200, seed=seed, rows=128) == 1.0 for seed in range(5))


def test_the_drift_of_a_training_is_left_alone():
    # Shorter by a tenth in ten batches, as residuals of a learning top become.
    assert noticed([0.99**step for step in range(150)]) == 1.0


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.1, 0.0), (0.02, 0.6), (0.9, 0.1)])
def test_another_share_of_positives_is_no_change(shares):
    for seed in range(10):
        source, unit = np.random.default_rng(seed), GradientUnit()
        batches = [shares[step % 2] for step in range(8)]
        assert [unit.change(sizes(share=share, source=source)) for share in batches] == [1.0] * 8


def test_classes_that_contradict_each_other_are_no_change():
    # The top grows sure of its negatives, and errs on the positives as before.
    source, unit = np.random.default_rng(0), GradientUnit()
    for step in range(6):
        residual, labels = residuals(512, 0.3, source)
        shrunk = torch.where((labels == 0) & torch.tensor(step > 3), residual / 8, residual)
        assert unit.change(sizes_of(shrunk.abs(), labels)) == 1.0


def test_zeros_neither_change_the_unit_nor_are_remembered():
    source, unit = np.random.default_rng(0), GradientUnit()
    labels = torch.arange(128) % 2
    zeros = sizes_of(torch.zeros(128, dtype=torch.float64), labels)
    assert unit.change(zeros) == 1.0
    for _ in range(4):
        assert unit.change(sizes(source=source)) == 1.0
        assert unit.change(zeros) == 1.0
    assert unit.change(sizes(source=source, scale=64.0)) == pytest.approx(64, rel=0.5)


def test_single_rows_and_lone_classes():
    source, unit = np.random.default_rng(0), GradientUnit()
    for rows in (1, 1, 2, 128, 1):
        assert unit.change(sizes(rows, 0.0, source=source)) == 1.0
    assert unit.change(sizes(128, 1.0, source=source)) == 1.0  # first positives ever
    assert unit.change(sizes(128, 0.0, source=source, scale=1e3)) == pytest.approx(1e3, rel=0.5)


def test_what_is_kept_is_taken_up_again():
    source, unit, again = np.random.default_rng(0), GradientUnit(), GradientUnit()
    unit.change(sizes(source=source))
    again.restore(unit.state())
    next_batch = sizes(source=source, scale=8.0)
    assert again.change(next_batch) == unit.change(next_batch) != 1.0
    again.restore({})
    assert again.state() == {}


# --- Marvell under such changes -----------------------------------------------------------------


def leak(scores, labels):
    """Leak AUC by its definition."""
    wins = np.subtract.outer(scores[labels == 1], scores[labels == 0])
    auc = ((wins > 0) + 0.5 * (wins == 0)).mean()
    return max(auc, 1 - auc)


def gradients(rows, share, source):
    """Residuals times one direction, nearly of rank 1, of a mean loss."""
    direction = source.normal(size=8)

    def draw():
        residual, labels = residuals(rows, share, source)
        noise = 0.01 * torch.from_numpy(source.normal(size=(rows, 8)))
        direction_row = torch.from_numpy(direction)[None]
        return (residual[:, None] * direction_row + noise) / rows, labels

    return draw, direction


SEQUENCES = {
    "constant": [1, 1, 1, 1],
    "doubled": [2, 2, 2, 2],
    "by_4": [4, 4, 4, 4],
    "by_64": [64, 64, 64, 64],
    "halved": [0.5, 0.5, 0.5, 0.5],
    "thousandth": [1e-3, 1e-3, 1e-3, 1e-3],
    "doubled_each_time": [2, 4, 8, 16],
    "there_and_back": [64, 1, 1 / 64, 64],
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize(("rows", "share"), [(512, 0.04), (128, 0.1)])
def test_a_goal_holds_whatever_the_scale_of_the_loss_does(name, rows, share):
    found = []
    for seed in range(30):
        source = np.random.default_rng(seed)
        draw, direction = gradients(rows, share, source)
        protection, scores, labels = Marvell(max_leak_auc=0.65), [], []
        for step, scale in enumerate([1, 1, 1, 1, *SEQUENCES[name]]):
            gradient, mine = draw()
            sent = protection.perturb(gradient * scale, mine, noise=SecretNoise()) / scale
            if step >= 4:
                scores.append(sent.numpy() @ direction)
                labels.append(mine.numpy())
        found.append(leak(np.concatenate(scores), np.concatenate(labels)))
        assert protection.guarantee(1).leak_auc == pytest.approx(0.65, abs=1e-9)
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) <= 0.65 + 5 * error
    # Nor is there more noise than is needed: constant units end at .62.
    assert np.mean(found) >= 0.55


def test_a_sum_loss_with_a_short_last_batch_gets_the_noise_asked_for():
    # The unit is that of a mean loss; a sum's rows are longer by the rows, which change here.
    powers = []
    for seed in range(20):
        source = np.random.default_rng(seed)
        long, _ = gradients(512, 0.04, source)
        protection, noise = Marvell(s=4.0), SeededNoise(seed)
        for _ in range(6):
            gradient, labels = long()
            protection.perturb(gradient * 512, labels, noise=noise)
        gradient, labels = gradient[:64] * 512, labels[:64]
        sent = protection.perturb(gradient, labels, noise=noise)
        whole, theirs = long()
        gap = 512 * (whole[theirs == 1].mean(0) - whole[theirs == 0].mean(0))
        powers.append(float((sent - gradient).square().sum(1).mean() / gap.square().sum()))
    # Four squared gaps; 64 times that, or a 64th, where the unit is missed.
    assert 2 < np.exp(np.mean(np.log(powers))) < 8


def test_a_loss_scaler_that_grows_keeps_the_goal():
    """The loop of the torch documentation, with a scaler that doubles at every third step."""
    source = np.random.default_rng(0)
    draw, direction = gradients(512, 0.04, source)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    protection, found = Marvell(max_leak_auc=0.65), []
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    for _ in range(45):
        gradient, labels = draw()
        activation = torch.zeros(512, 8, dtype=torch.float64, requires_grad=True)
        loss = (protect(activation, labels, protection) * gradient).sum() + parameter.sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(leak(activation.grad.numpy() @ direction, labels.numpy()))
    assert scaler.get_scale() == 8.0 * 2**15
    error = np.std(found) / math.sqrt(len(found))
    assert np.mean(found) <= 0.65 + 5 * error
