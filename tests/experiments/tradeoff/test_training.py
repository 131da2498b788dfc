"""What one run measures, and what the paper's protocol changes of it."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from cutlayer.audits import HINTS, TRANSCRIPT, TRUTH, read_ground_truth, read_hints
from cutlayer.errors import ConfigurationError
from cutlayer.experiments.tradeoff.clear_wide_logit import ClearWideLogit
from cutlayer.experiments.tradeoff.configuration import checked
from cutlayer.experiments.tradeoff.records import records_of
from cutlayer.experiments.tradeoff.result import run_folder
from cutlayer.experiments.tradeoff.training import do_run
from cutlayer.leakage import leak_auc
from cutlayer.parties import LabelParty, Terms
from cutlayer.protections import Isotropic
from cutlayer.rng import SecretNoise, SeededNoise
from cutlayer.transcript import Transcript


def one_run(tmp_path, protection, **settings):
    defaults = {"data": "breast-cancer", "epochs": 1, "batch_size": 64, "hidden": [8]}
    configuration = checked(
        {**defaults, "cut_width": 4, "protections": [protection], "seeds": [0], **settings}
    )
    run = configuration.runs[0]
    folder = run_folder(tmp_path, run)
    folder.mkdir(parents=True)
    return do_run(configuration, run, folder), folder / "label_party"


def cosine_leaks(messages, *, keep_hint, width=None):
    """The cosine attack once more, by torch's own cosine."""
    truth, hints = read_ground_truth(messages / TRUTH), read_hints(messages / HINTS)
    leaks = []
    for release in Transcript(messages / TRANSCRIPT):
        hint = hints[release.step]
        scores = functional.cosine_similarity(
            release.gradient[:, :width].double(), hint.gradient[None, :width].double()
        )
        rows = torch.ones(len(scores), dtype=torch.bool)
        if not keep_hint:
            rows = release.records != hint.record
        auc = leak_auc(scores[rows], truth.labels[release.records][rows])
        leaks.append(max(auc, 1 - auc))
    return leaks


def at_cut(result, attack):
    return next(a for a in result.attacks if a.attack == attack and a.layer == "cut")


@pytest.mark.parametrize("paper", [False, True])
def test_the_papers_protocol_keeps_the_hint_in_the_auc(tmp_path, paper):
    result, messages = one_run(tmp_path, "isotropic:t=25", paper_protocol=paper)
    leaks = cosine_leaks(messages, keep_hint=paper)
    measured = at_cut(result, "cosine")
    assert measured.median == pytest.approx(np.median(leaks))
    assert measured.p95 == pytest.approx(np.quantile(leaks, 0.95))
    assert np.median(leaks) != np.median(cosine_leaks(messages, keep_hint=not paper))


def test_the_papers_wide_logit_is_sent_in_clear_and_left_out_of_the_cut(tmp_path):
    result, messages = one_run(
        tmp_path, "isotropic:t=25", model="wide_deep", cut_width=5, paper_protocol=True
    )
    leaks = cosine_leaks(messages, keep_hint=True, width=4)
    assert at_cut(result, "cosine").p95 == pytest.approx(np.quantile(leaks, 0.95))
    truth = read_ground_truth(messages / TRUTH)
    for release in Transcript(messages / TRANSCRIPT):
        labels = truth.labels[release.records].bool()
        # (prediction - label) / batch size: negative exactly for the positives.
        assert torch.equal(release.gradient[:, -1] < 0, labels)


def test_without_the_protocol_the_wide_logit_is_covered(tmp_path):
    _, messages = one_run(tmp_path, "isotropic:t=25", model="wide_deep", cut_width=5)
    truth = read_ground_truth(messages / TRUTH)
    agree = [
        (release.gradient[:, -1] < 0) == truth.labels[release.records].bool()
        for release in Transcript(messages / TRANSCRIPT)
    ]
    assert not bool(torch.cat(agree).all())


def test_a_clear_wide_logit_refuses_secret_noise():
    gradient, labels = torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    protection = ClearWideLogit(Isotropic(t=4))
    sent = protection.perturb(gradient, labels, noise=SeededNoise(0))
    assert torch.equal(sent[:, -1], gradient[:, -1])
    assert not bool((sent[:, :-1] == gradient[:, :-1]).any())
    assert protection.guarantee(1).kind == "none"
    label, _ = records_of(checked({"data": "breast-cancer", "protections": ["no_noise"]}))
    with pytest.raises(ConfigurationError, match="simulations only"):
        LabelParty(
            label,
            Terms(run="r", data="d", protection="p"),
            protection,
            lambda *_: torch.nn.Identity(),
            lambda p: torch.optim.Adam(p),
            noise=SecretNoise(),
        )


def test_a_run_is_repeatable(tmp_path):
    first, _ = one_run(tmp_path / "a", "marvell:s=1")
    second, _ = one_run(tmp_path / "b", "marvell:s=1")
    seconds = {"training_seconds", "audit_seconds"}
    assert first.model_dump(exclude=seconds) == second.model_dump(exclude=seconds)


def test_every_run_has_the_same_records_whatever_its_seed():
    settings = {"data": "breast-cancer", "protections": ["no_noise"], "rows": 100}
    label, non_label = records_of(checked(settings))
    again, _ = records_of(checked({**settings, "seeds": [5]}))
    assert list(label.ids) == list(non_label.ids) == list(again.ids)
    assert len(label) == 100
    share, _ = records_of(checked({**settings, "rows": 0.25}))
    assert len(share) == round(0.25 * 569)
    with pytest.raises(ConfigurationError, match="rows"):
        records_of(checked({**settings, "rows": 570}))


@pytest.fixture
def image_file(tmp_path):
    generator = np.random.Generator(np.random.PCG64(0))
    pixels = generator.integers(0, 256, (60, 12, 12, 3), dtype=np.uint8)
    labels = np.arange(60, dtype=np.int8) % 3 == 0
    pixels[labels] //= 2
    path = tmp_path / "dots.npz"
    np.savez(path, x=pixels, y=labels.astype(np.int8))
    return path


def test_images_train_by_a_cnn(tmp_path, image_file):
    result, messages = one_image_run(tmp_path, image_file)
    assert {a.layer for a in result.attacks} == {"cut", "first"}
    release = next(iter(Transcript(messages / TRANSCRIPT)))
    assert release.gradient.shape[1] == 3 * 4 * 4  # channels, and 8 halved once


def one_image_run(tmp_path, image_file):
    configuration = checked(
        {"images": str(image_file), "image_side": 8, "model": "cnn", "channels": 3}
        | {"blocks": [1, 1], "batch_size": 16, "epochs": 1, "protections": ["max_norm"]}
    )
    run = configuration.runs[0]
    folder = run_folder(tmp_path, run)
    folder.mkdir(parents=True)
    return do_run(configuration, run, folder), folder / "label_party"
