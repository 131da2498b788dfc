"""The noise of the residual belongs to a record and a visit, whatever folder is restored."""

import copy
import os
import shutil
from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import nn

from cutlayer.data import PartyTable
from cutlayer.leakage.leak_auc import leak_auc
from cutlayer.parties import LabelParty, NonLabelParty, Persistence
from cutlayer.protections import Isotropic, Marvell, Residual
from cutlayer.rng import SecretNoise
from tests.parties.conftest import QUICK, adam, make_bottom, make_top, tables, terms
from tests.parties.test_resuming import meet

RECORDS = 300
PLANNED = Residual(max_leak_auc=0.6, releases=2)


class Straight(nn.Module):
    """Its logit has slope 1 in the first number of the activation, so a message shows c itself."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, activation, own_features):
        return activation[:, 0] + self.bias


def straight_top(name, cut_width, own):
    return Straight() if name == "message_top" else make_top(name, cut_width, own)


class Moved(nn.Module):
    """A bottom whose activations, after the first so many, are not those of its weights."""

    def __init__(self, inner, scale, honest):
        super().__init__()
        self.inner, self.scale, self.honest = inner, scale, honest

    def forward(self, own_features):
        self.honest -= 1
        activation = self.inner(own_features)
        return activation if self.honest >= 0 else activation * self.scale + 0.3


class Attacker:
    """Knows all but the labels: it keeps the sigmoid of each logit, and what an answer adds."""

    def __init__(self, agreement):
        self.ids, self.answers, self.gradients = agreement.ids, [], []

    def on_release(self, release, labels, clean_gradient):
        self.gradients.append(release.gradient)
        rows = len(release.records)
        # The clean message is (sigmoid - label) / rows; labels serve to get the sigmoid out of it.
        known = rows * clean_gradient[:, 0].double() + labels
        noisy = rows * release.gradient[:, 0].double() - known
        for record, *answer in zip(
            release.records.tolist(), noisy.tolist(), known.tolist(), strict=True
        ):
            self.answers.append(((self.ids[record], release.epoch), answer))


class Run:
    """A run whose folders can be copied and restored between its starts."""

    def __init__(self, folder, *, records=RECORDS, protection=PLANNED, noise=None, **changes):
        self.folder, self.tables = folder, tables(records)
        self.terms = terms(
            **{"order": "nonces", "checkpoint_every": 2, "epochs": 2, "batch_size": 60, **changes}
        )
        self.protection, self.noise = protection, noise
        self.attackers = []

    def start(self, *, cut_after=None, scale=None, honest=0):
        """One connection; what both parties have to say, a half or an error each."""
        protection = copy.deepcopy(self.protection)  # Marvell's averages are of one training
        here = Persistence.in_folder(self.folder / "label", repr(protection))
        there = Persistence.in_folder(self.folder / "other")

        def watched(agreement, canaries):
            self.attackers.append(Attacker(agreement))
            return [self.attackers[-1]]

        try:
            label = LabelParty(
                self.tables[0],
                self.terms,
                protection,
                straight_top,
                adam,
                noise=self.noise or here.key.noise(),
                observers=watched,
                persistence=here,
                deadlines=QUICK,
            )
            other = NonLabelParty(
                self.tables[1],
                self.terms,
                lambda own: Moved(make_bottom(own), scale or 1.0, honest if scale else 1 << 30),
                adam,
                persistence=there,
                deadlines=QUICK,
            )
            return meet(label, other, cut_after=cut_after)
        finally:
            here.close()
            there.close()

    def copied(self, name):
        return shutil.copytree(self.folder / "label", self.folder / name, dirs_exist_ok=True)

    def restore(self, name):
        shutil.rmtree(self.folder / "label")
        shutil.copytree(self.folder / name, self.folder / "label")

    def forget_peer(self):
        """The non-label party begins anew: other weights, another half of the batch order."""
        shutil.rmtree(self.folder / "other")

    def answers(self):
        """For each record and visit all answers: what they add to the sigmoid, and the sigmoid."""
        told = {}
        for attacker in self.attackers:
            for visit, answer in attacker.answers:
                told.setdefault(visit, []).append(answer)
        return told


HELLOS = 3  # messages of the label party before the first gradient


def begun(run):
    """The label party's folder as it was before the first connection: nothing but the key."""
    Persistence.in_folder(run.folder / "label", repr(run.protection)).close()
    return run.copied("begun")


def restored_before_the_first_answer(run):
    begun(run)
    run.start()
    run.restore("begun")
    run.forget_peer()
    run.start(scale=3.0)


def restored_in_the_middle(run):
    run.start(cut_after=HELLOS + 3)  # steps 0 to 3 are on record, 3 did not arrive
    run.copied("middle")
    shutil.copytree(run.folder / "other", run.folder / "other of the middle")
    run.start()
    run.restore("middle")
    run.forget_peer()
    shutil.copytree(run.folder / "other of the middle", run.folder / "other")
    run.start(scale=-2.0, honest=2)  # steps 2 and 3 as before


def all_but_the_key_is_lost(run):
    run.start()
    for path in (run.folder / "label").iterdir():
        if path.name != "run.key":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    run.forget_peer()
    run.start(scale=0.1)


def a_later_journal_alone(run):
    """Newer than the newest checkpoint: nothing shows that a step was answered since."""
    run.start(cut_after=HELLOS + 3)  # steps 0 to 3 are on record, the newest state is that of 2
    journal = (run.folder / "label/journal").read_bytes()
    shutil.copytree(run.folder / "other", run.folder / "other then")
    run.start(cut_after=HELLOS + 2)  # steps 2 and 3 again, and step 4
    (run.folder / "label/journal").write_bytes(journal)
    run.forget_peer()
    shutil.copytree(run.folder / "other then", run.folder / "other")
    run.start(scale=-2.0, honest=2)  # steps 2 and 3 as before


def other_batches(run):
    begun(run)
    run.start()
    run.restore("begun")
    run.forget_peer()
    run.terms = replace(run.terms, batch_size=90, micro_batches=2, staleness=1)
    run.start()


def other_records(run):
    """The peer leaves some out, so all others have other numbers."""
    begun(run)
    run.start()
    run.restore("begun")
    run.forget_peer()
    label, other = run.tables
    run.tables = label, other.ordered_by(sorted(other.ids)[20:])
    run.start()


SCENARIOS = [
    restored_before_the_first_answer,
    restored_in_the_middle,
    all_but_the_key_is_lost,
    a_later_journal_alone,
    other_batches,
    other_records,
]


@pytest.mark.parametrize("restored", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_second_answer_differs_from_the_first_by_known_numbers(tmp_path, restored):
    run = Run(tmp_path)
    restored(run)
    repeated = [answers for answers in run.answers().values() if len(answers) > 1]
    assert len(repeated) >= run.terms.batch_size
    pairs = [(first, other) for first, *others in repeated for other in others]
    for (added, _), (again, _) in pairs:
        # Each answer is rounded by half a step at most; float32 adds less than a tenth of one.
        assert abs(added - again) <= 1.1 * PLANNED.grid_step
    copies = sum(sigmoid == other for (_, sigmoid), (_, other) in pairs)
    assert copies < len(pairs) / 2  # the control: most were asked with another activation


def test_the_visits_of_a_record_have_unrelated_noise(tmp_path):
    run = Run(tmp_path)
    run.start()
    told = noise_of_visits(run)
    names = [name for name, visit in told if visit == 0]
    pairs = torch.tensor([[told[name, 0], told[name, 1]] for name in names])
    assert len(told) == 2 * len(names)
    # The label adds less than 1 / (4 sigma^2).
    unrelated = 5 / len(pairs) ** 0.5 + 1 / (4 * PLANNED.noise_deviation**2)
    assert abs(torch.corrcoef(pairs.T)[0, 1].item()) <= unrelated


class NoiseByStep(SecretNoise):
    """What the product had before: another message gets other noise."""

    def for_visit(self, visit, marks, scale):
        return SecretNoise()


@pytest.mark.parametrize("noise", [None, NoiseByStep], ids=["by visit", "by step"])
def test_no_number_of_restored_copies_tells_more_than_the_bound(tmp_path, noise):
    run = Run(
        tmp_path, records=1000, protection=Residual(max_leak_auc=0.6, releases=1),
        noise=noise and noise(os.urandom(32)), epochs=1, batch_size=400,
    )  # fmt: skip
    begun(run)
    for number in range(24):
        run.start(scale=1.0 + number / 8)
        run.restore("begun")
        run.forget_peer()
    answers = run.answers()
    truth = dict(zip(run.tables[0].ids, run.tables[0].labels.tolist(), strict=True))
    labels = torch.tensor([truth[name] for name, _ in answers])
    added = torch.tensor(list(answers.values()))[:, :, 0]
    assert added.shape == (len(labels), 24)
    # The likelihood ratio of Gaussian noise orders records by the sum of all that was told.
    auc = leak_auc(-added.sum(1), labels)
    positives, negatives = int(labels.sum()), int((1 - labels).sum())
    error = (0.25 / min(positives, negatives)) ** 0.5
    if noise is None:
        assert auc <= 0.6 + 5 * error
    else:  # Phi(sqrt(24) * 0.2533) = .893
        assert auc > 0.6 + 5 * error


def noise_of_visits(run):
    """What the latest start added to the sigmoids, by record and visit."""
    return {visit: added for visit, (added, _) in run.attackers[-1].answers}


def relabelled(run, *, flipped):
    """The label party's table with another label for these many of its records."""
    table = run.tables[0]
    labels = table.labels.clone()
    labels[:flipped] = 1 - labels[:flipped]
    return PartyTable(table.party, table.ids, table.features, labels), run.tables[1]


@pytest.mark.parametrize("change", ["a label", "sigma"])
def test_other_labels_or_another_sigma_get_unrelated_noise_though_the_key_is_restored(
    tmp_path, change
):
    """With the same noise, the difference of two answers would be the label itself."""
    run = Run(tmp_path)
    begun(run)
    run.start()
    first = noise_of_visits(run)
    run.restore("begun")
    run.forget_peer()
    if change == "a label":
        run.tables = relabelled(run, flipped=1)
    else:
        run.protection = Residual(sigma=2 * PLANNED.noise_deviation)
    run.start()
    second = noise_of_visits(run)
    assert first.keys() == second.keys()
    pairs = torch.tensor([[first[visit], second[visit]] for visit in first])
    correlation = torch.corrcoef(pairs.T)[0, 1].item()
    # Of unrelated noise: the labels, alike in both, add less than 1 / (4 sigma^2).
    sigma = PLANNED.noise_deviation
    assert abs(correlation) <= 5 / len(pairs) ** 0.5 + 1 / (4 * sigma**2)


def test_rows_in_another_order_and_rows_that_are_new_leave_the_noise_as_it_was(tmp_path):
    run = Run(tmp_path)
    begun(run)
    run.start(cut_after=HELLOS + 5)
    label, other = run.tables
    run.tables = label.ordered_by(label.ids[::-1]), other
    run.start(cut_after=HELLOS + 3)  # answers that were made before are made again, and equal
    grown = tables(RECORDS + 40)[0]
    assert not set(grown.ids[RECORDS:]) & set(label.ids)
    features = pl.concat([label.features, grown.features[RECORDS:]])
    labels = torch.cat([label.labels, grown.labels[RECORDS:]])
    run.tables = (
        PartyTable(label.party, (*label.ids, *grown.ids[RECORDS:]), features, labels),
        other,
    )
    assert not any(isinstance(half, Exception) for half in run.start())


@pytest.mark.parametrize("protection", [Isotropic(t=1.0), Marvell(s=4.0)], ids=lambda p: p.name)
def test_other_protections_answer_again_with_fresh_noise(tmp_path, protection):
    """What the threat model says of a restored folder where the noise belongs to a step."""
    run = Run(tmp_path, protection=protection)
    begun(run)
    Persistence.in_folder(run.folder / "other").close()
    shutil.copytree(run.folder / "other", run.folder / "other begun")
    sent = []
    for scale in (None, None, 1.001):
        run.start(scale=scale)
        sent.append(run.attackers[-1].gradients[0])
        run.restore("begun")
        run.forget_peer()
        shutil.copytree(run.folder / "other begun", run.folder / "other")
    first, again, moved = sent
    assert torch.equal(first, again)
    spread = first.std()
    assert (first - moved).std() > spread  # of unrelated noise: sqrt(2) times as much
