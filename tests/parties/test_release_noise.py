"""N1 to N3, N5, N6, N9 of the noise that leaves: secret, keyed by the message, single-use."""

import dis
import inspect
import itertools
import os
import sys

import numpy as np
import pytest
import torch

from cutlayer import rng
from cutlayer.errors import ConfigurationError, ConnectionLostError, StorageError
from cutlayer.parties import InputShape, ReleaseJournal, top_trainer
from cutlayer.parties.compute import Compute
from cutlayer.parties.label_step import LabelStep, ReleaseRecord
from cutlayer.parties.top_trainer import top_trainer_for
from cutlayer.protections import Isotropic, Marvell, MaxNorm, NoNoise, Residual
from cutlayer.rng import SecretNoise
from tests.faults.misbehaving_peer import Bug, Kind, Role, play
from tests.parties.conftest import adam, make_top, question, run_pair, tables, terms

PROTECTED = [Isotropic(t=1.0), MaxNorm(), Marvell(s=4.0), Residual(sigma=1.0)]


class Sent:
    """Keeps what leaves."""

    def __init__(self):
        self.gradients = []

    def on_release(self, release, labels, clean_gradient):
        self.gradients.append(release.gradient)


def sent_under(protection, noise=None):
    seen = Sent()
    run_pair(
        *tables(),
        protection=protection,
        observers=lambda agreement, canaries: [seen],
        noise=noise or SecretNoise(),
        label_terms=terms(epochs=1),
    )
    return seen.gradients


def seed_everything():
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002  the point is that it has no effect


@pytest.mark.parametrize("protection", PROTECTED, ids=lambda p: p.name)
def test_n1_two_equal_runs_with_all_global_seeds_fixed_have_different_noise(protection):
    seed_everything()
    first = sent_under(protection)
    seed_everything()
    second = sent_under(protection)
    assert not torch.equal(first[0], second[0])
    seed_everything()
    # The control: without noise the first message, made from the same weights, is the same.
    assert torch.equal(sent_under(NoNoise())[0], sent_under(NoNoise())[0])


@pytest.mark.parametrize("protection", PROTECTED, ids=lambda p: p.name)
def test_n1_the_release_path_never_seeds_or_uses_torchs_generator(protection, monkeypatch):
    def make(name):
        return make_top(name, 4, InputShape((0 if name == "message_top" else 2,)))

    head = top_trainer_for(protection, make, adam, SecretNoise(bytes(32)), Compute())

    def refused(*arguments, **settings):
        raise AssertionError("torch's generator was used in the release path")

    for name in ("manual_seed", "seed", "randn", "rand", "normal", "randint", "bernoulli"):
        monkeypatch.setattr(torch, name, refused)
    before = torch.random.get_rng_state()
    answer = head.answer(question(0, ACTIVATION, OWN, LABELS, audited=True))
    assert answer.gradient.shape == (16, 4)
    assert torch.equal(before, torch.random.get_rng_state())


GENERATOR = torch.Generator().manual_seed(3)
ACTIVATION = torch.randn(16, 4, generator=GENERATOR)
OWN = torch.randn(16, 2, generator=GENERATOR)
LABELS = torch.arange(16) % 2


def test_n3_the_same_values_and_step_give_the_same_bytes_and_one_bit_gives_others():
    source = SecretNoise(os.urandom(32))
    gradient = torch.randn(1000, 8, generator=GENERATOR)
    flipped = gradient.clone()
    flipped.view(torch.int32)[500, 3] ^= 1
    labels = torch.zeros(1000)
    draw = source.for_release(3, gradient, labels).normal(250_000)
    assert torch.equal(draw, source.for_release(3, gradient.clone(), labels).normal(250_000))
    others = {
        "one bit of the gradient": source.for_release(3, flipped, labels),
        "another step": source.for_release(4, gradient, labels),
        "one label": source.for_release(3, gradient, torch.eye(1000)[0]),
        "another key": SecretNoise(os.urandom(32)).for_release(3, gradient, labels),
    }
    for name, other in others.items():
        correlation = np.corrcoef(draw.numpy(), other.normal(250_000).numpy())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(250_000), name


@pytest.mark.parametrize(
    "count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)], ids=str
)
def test_n3_derived_keys_do_not_repeat(count, monkeypatch):
    keys = set()
    source = SecretNoise(bytes(32))
    monkeypatch.setattr(rng, "_KeyStream", lambda key, block: keys.add(key))
    for step in range(count):
        source.for_release(step, ACTIVATION[:1])
    assert len(keys) == count
    assert {len(key) for key in keys} == {32}


def float32_noise_can_give(output, value):
    """Whether some float32 noise turns each value into the output; looked for nearby."""
    difference = (output.astype(np.float64) - value).astype(np.float32)
    possible = np.zeros(len(output), dtype=bool)
    for steps in range(-2, 3):
        noise = difference
        for _ in range(abs(steps)):
            noise = np.nextafter(noise, np.float32(np.copysign(np.inf, steps)))
        possible |= (value.astype(np.float32) + noise).astype(np.float32) == output
    return possible


def float64_noise_can_give(output, value, finish):
    """Whether some float64 noise does: the attack that knows how the noise is really made."""
    difference = output.astype(np.float64) - value
    possible = np.zeros(len(output), dtype=bool)
    for steps in range(-2, 3):
        noise = difference
        for _ in range(abs(steps)):
            noise = np.nextafter(noise, np.copysign(np.inf, steps))
        possible |= finish(value + noise) == output
    return possible


COUNT = 2_000_000


def test_n6_low_order_bits_prove_float32_noise_and_nothing_here():
    """Mironov (2012): the outputs that a value can have give it away. 0 of 2 M for ours."""
    generator = torch.Generator().manual_seed(1)
    truth = torch.randint(2, (COUNT,), generator=generator).numpy().astype(np.float64)
    # The control: float32 value plus float32 noise, which is what torch.randn would give.
    noise = torch.randn(COUNT, generator=generator).numpy()
    output = (truth.astype(np.float32) + noise).astype(np.float32)
    proven = ~float32_noise_can_give(output, 1 - truth)
    assert float32_noise_can_give(output, truth).all()
    assert proven.mean() > 0.2
    # Residual: logit 0, so the residual is 1/2 or -1/2, noise in float64, a public grid.
    protection = Residual(sigma=1.0)
    labels = torch.from_numpy(truth).long()
    sent = protection.noisy_residual(torch.zeros(COUNT), labels, noise=SecretNoise()).numpy()
    grid = protection.grid_step

    def finish(exact):
        return (np.round(exact / grid) * grid).astype(np.float32)

    for label in (0.0, 1.0):
        exact = np.full(COUNT, 0.5 - label)
        assert float64_noise_can_give(sent, exact, finish).all()
    assert (sent.astype(np.float64) / grid == np.round(sent.astype(np.float64) / grid)).all()
    # The control of the control: the same attack sees it at once when values lie beside the grid.
    assert not float64_noise_can_give(sent + np.float32(grid / 4), truth, finish).any()


@pytest.mark.parametrize("protection", [Isotropic(t=1.0), Marvell(s=4.0)], ids=lambda p: p.name)
def test_n6_low_order_bits_of_gradients_prove_nothing(protection):
    """Float64 noise reaches every float32 from every gradient. max_norm is left out: its noise
    lies on the gradient's own line, which is its documented leak."""
    rows = COUNT // 8
    labels = torch.arange(rows) % 2
    clean = torch.randn(rows, 8, generator=torch.Generator().manual_seed(2))
    clean += labels[:, None].float()
    sent = protection.perturb(clean, labels, noise=SecretNoise()).numpy().ravel()
    others = clean.flip(0).numpy().ravel().astype(np.float64)  # of a row of the other class

    def finish(exact):
        return exact.astype(np.float32)

    assert float64_noise_can_give(sent, clean.numpy().ravel().astype(np.float64), finish).all()
    assert float64_noise_can_give(sent, others, finish).all()


REPLAY = Bug(
    "HonestReplay",
    Role.NON_LABEL,
    Kind.ACTIVATION,
    lambda frame: [frame.raw],
    None,
    "",
    earlier_steps=3,
    goes_on="end",
)


def test_n5_an_older_checkpoint_brings_no_second_distinct_reply(tmp_path):
    """The newest checkpoints of the label party are gone; key and journal are not."""
    played = play(REPLAY, tmp_path)
    assert played.error is None
    journal = played.after["files"]["journal"]
    again = play(REPLAY, tmp_path / "restored")
    assert again.error is None
    assert again.after["released"] == played.after["released"] == 8
    assert again.after["files"]["journal"] == journal


def lines_of(function):
    """Line numbers of a function's body."""
    return sorted({line for _, line in dis.findlinestarts(function.__code__) if line})


class KilledError(BaseException):
    """Nothing catches it, as nothing catches kill -9."""


@pytest.mark.slow
def test_n9_a_kill_at_any_line_of_the_release_path_never_gives_two_replies(tmp_path):
    """The process dies before each line of the step and of the journal's write in turn; started
    again, the run must go on to the journal that an undisturbed run has."""
    undisturbed = play(None, tmp_path / "undisturbed").after["files"]["journal"]
    targets = [
        (function.__code__, line)
        for function in (
            LabelStep.run,
            ReleaseRecord.settle,
            ReleaseJournal.settle,
            ReleaseJournal._append,
        )
        for line in lines_of(function)[1:]
    ]
    died, measuring = 0, sys.gettrace()
    for number, (code, line) in enumerate(targets):
        folder = tmp_path / str(number)
        visits = itertools.count()

        def trace(frame, event, argument, code=code, line=line, visits=visits):
            if frame.f_code is not code:
                return None

            def local(frame, event, argument):
                if event == "line" and frame.f_lineno == line and next(visits) == 2:
                    raise KilledError
                return local

            return local

        sys.settrace(trace)
        try:
            first = play(None, folder)
        finally:
            sys.settrace(measuring)
        if first.error is None:
            continue  # a line of an error that does not occur
        assert isinstance(first.error, KilledError)
        died += 1
        second = play(None, folder)
        assert second.error is None, (line, second.error)
        assert second.after["files"]["journal"] == undisturbed, line
    assert died >= len(targets) // 2


def test_n9_a_budget_for_three_releases_stops_the_fourth_before_it_is_sent():
    with pytest.raises(ConfigurationError, match=r"planned for 3 releases .* terms say 4"):
        run_pair(
            *tables(),
            protection=Residual(max_leak_auc=0.7, releases=3),
            label_terms=terms(epochs=4),
        )


def test_n9_a_reply_that_is_on_record_and_was_not_sent_is_counted(tmp_path):
    """The connection breaks at the moment of sending: the step is charged all the same."""
    cut = Bug(
        "ClosesBeforeTheReply",
        Role.NON_LABEL,
        Kind.ACTIVATION,
        lambda frame: [frame.raw, None],
        ConnectionLostError,
        "",
        None,
        nth=2,
    )
    played = play(cut, tmp_path)
    assert isinstance(played.error, ConnectionLostError)
    assert played.after["released"] == 3


def test_n9_nothing_leaves_when_the_journal_cannot_be_written(tmp_path, monkeypatch):
    def full(self, step, request, reply):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ReleaseJournal, "_append", full)
    played = play(None, tmp_path)
    assert isinstance(played.error, StorageError)
    assert played.after["sent"] == (0, 0)


def test_the_noise_of_a_release_is_keyed_in_one_place():
    source = inspect.getsource(top_trainer)
    # One for each stage.
    assert source.count(".for_release(") == source.count(".for_visit(") == 1
