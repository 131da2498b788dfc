"""S2: an audit before a reply does the same work whatever the labels, and reports the same."""

from dataclasses import asdict

import pytest
import torch

from cutlayer.attacks import Attack
from cutlayer.audits import GroundTruth, LeakAuditor
from cutlayer.audits.constant_time import both_classes, stand_in_hint
from cutlayer.audits.hints import pick_hint
from cutlayer.audits.live.release_audit import ReleaseAudit
from cutlayer.transcript import Release

RECORDS, ROWS, WIDTH = 240, 8, 3
LABELS = (torch.arange(RECORDS) % 10 == 0).long()


def releases(epochs=2):
    """Releases of eight rows, many without a positive, with their clean gradients."""
    generator = torch.Generator().manual_seed(0)
    step = 0
    for epoch in range(epochs):
        for rows in torch.randperm(RECORDS, generator=generator).split(ROWS):
            clean = torch.randn(ROWS, WIDTH, generator=generator) + LABELS[rows][:, None]
            sent = clean + torch.randn(ROWS, WIDTH, generator=generator)
            yield Release(step, epoch, rows, torch.zeros(ROWS, WIDTH), sent), clean
            step += 1


@pytest.mark.parametrize("labels", [[0, 1, 0], [0, 0, 0], [1, 1], [0, 0], [1, 1, 1, 0]])
def test_labels_to_compare_with_hold_both_classes(labels):
    given = torch.tensor(labels, dtype=torch.int8)
    compared, defined = both_classes(given)
    assert defined == (len(set(labels)) == 2)
    assert set(compared.tolist()) == {0, 1}
    # By hand: one flip where a class is missing, else none.
    assert int((compared != given).sum()) == (0 if defined else 1)
    assert given.tolist() == labels


def test_a_stand_in_has_the_shape_of_a_hint_and_is_not_zero():
    release, clean = next(releases())
    true = pick_hint(release.records, torch.ones(ROWS), clean, generator=torch.Generator())
    stand_in = stand_in_hint(release)
    assert stand_in.gradient.shape == true.gradient.shape
    assert stand_in.gradient.dtype == true.gradient.dtype
    assert bool(stand_in.gradient.all())
    assert stand_in.record in release.records


def test_s2_every_release_is_attacked_alike_with_and_without_a_positive():
    called = {True: set(), False: set()}
    now = True

    def hinted(gradient: torch.Tensor, hint: torch.Tensor) -> torch.Tensor:
        called[now].add((tuple(gradient.shape), tuple(hint.shape), hint.dtype))
        return gradient @ hint

    audit = ReleaseAudit(LABELS, generator=torch.Generator(), attacks={"hinted": Attack(hinted)})
    for release, clean in releases():
        now = bool(LABELS[release.records].any())
        audit.on_release(release, LABELS[release.records], clean)
    assert called[True] == called[False] == {((ROWS, WIDTH), (WIDTH,), torch.float32)}


def test_s2_stand_ins_change_no_number():
    found = []
    for constant_time in (False, True):
        auditor = LeakAuditor(GroundTruth(LABELS), constant_time=constant_time)
        generator = torch.Generator().manual_seed(1)
        for release, clean in releases():
            hint = pick_hint(release.records, LABELS[release.records], clean, generator=generator)
            auditor.observe(release, hint)
        found.append(asdict(auditor.result()))
    assert any(one["hintless_batches"] > 10 for one in found[0]["measurements"])
    assert any(one["one_class_batches"] > 10 for one in found[0]["measurements"])
    assert found[0] == found[1]
