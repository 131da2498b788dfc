import re

import pytest

from cutlayer.reports.phrases import interval
from cutlayer.reports.summary import seen_by
from cutlayer.reports.wording import (
    accounts,
    estimate,
    headlines,
    lead,
    not_measured,
    outcome,
    pairs,
    printable,
    release_names,
    verdicts,
)


def verdict(findings, about):
    return next(v for v in verdicts(findings) if v.about == about)


def replaced(findings, protection, target, **fields):
    return [
        row.model_copy(update=fields)
        if (row.protection, row.target) == (protection, target)
        else row
        for row in findings.rows
    ]


def test_no_noise_is_read_in_pairs(findings):
    text = verdict(findings, "no_noise").text
    assert "nothing is proven" in text
    assert "cosine tells a positive from a negative in more than 99 of 100 pairs" in text


def test_a_model_bound_never_stands_without_the_measured_attack(findings):
    marvell = verdict(findings, "marvell s=4")
    assert "at most 0.683 from one release, measured 0.992 by tail_energy" in marvell.text
    assert "at most 0.971 from the whole training, measured 1.000 by tail_energy" in marvell.text
    assert "does not hold" in marvell.text
    assert "by cosine alone would have read 0.641" in marvell.text
    assert marvell.level == "alarm"


def test_a_model_that_no_attack_beats_is_still_only_a_model(make_findings, findings):
    rows = replaced(findings, "marvell", "labels", leak_auc=0.6)
    marvell = verdict(make_findings(rows=rows), "marvell s=4")
    assert marvell.level == "warning"
    assert "holds only if its model does" in marvell.text


def test_a_proof_is_confirmed_by_canaries(findings):
    residual = verdict(findings, "residual sigma=4.26")
    assert residual.level == "good"
    assert "at most 0.700 over the whole training is proven" in residual.text
    assert "none of 5 attacks is above its bound: the worst reads 0.670 by cosine" in residual.text


def test_what_features_tell_is_not_held_against_a_proof(make_findings, findings):
    low = make_findings(rows=replaced(findings, "residual", "labels", leak_auc=0.55))
    assert "On the true labels" not in verdict(low, "residual sigma=4.26").text
    rows = replaced(findings, "residual", "labels", leak_auc=0.8)
    residual = verdict(make_findings(rows=rows), "residual sigma=4.26")
    assert residual.level == "good"
    assert (
        "On the true labels norm reads 0.800 from one release, more than the bound of 0.566"
        in residual.text
    )
    assert "norm reads 0.800 from the whole training, more than the bound of 0.700" in residual.text
    assert "the canaries' AUC is what it speaks of: they read 0.670" in residual.text


def test_a_proof_without_canaries_says_so(make_findings, findings):
    rows = [row for row in findings.rows if row.target == "labels"]
    residual = verdict(make_findings(rows=rows), "residual sigma=4.26")
    assert residual.level == "warning"
    assert "no canaries" in residual.text


def test_too_few_canaries_confirm_nothing(make_findings, findings):
    rows = replaced(findings, "residual", "canaries", null_deviation=0.07)  # .7 + 5 x .07 > 1
    residual = verdict(make_findings(rows=rows), "residual sigma=4.26")
    assert residual.level == "warning"
    assert "too few canaries" in residual.text


def test_a_proof_that_canaries_refute_is_an_alarm_and_comes_first(make_findings, findings):
    refuted = make_findings(rows=replaced(findings, "residual", "canaries", leak_auc=0.91))
    residual = verdict(refuted, "residual sigma=4.26")
    assert residual.level == "alarm"
    assert "ABOVE the bound of 0.700" in residual.text
    shown, left_out = headlines(refuted, at_most=1)
    assert [v.about for v in shown] == ["residual sigma=4.26"]
    assert left_out == len(verdicts(refuted)) - 1
    assert any("ABOVE ITS BOUND" in sentence for sentence in lead(refuted))


def test_headlines_keep_the_order_of_the_document(findings):
    shown, _ = headlines(findings)
    assert [v.about for v in shown] == [
        "no_noise",
        "marvell s=4",
        "residual sigma=4.26",
        "baselines",
    ]


def test_a_protection_that_was_not_attacked_has_no_clean_bill(make_findings, findings):
    kept = [row for row in findings.rows if row.protection != "max_norm"]
    silent = verdict(make_findings(rows=kept), "max_norm")
    assert "nothing is known" in silent.text
    assert silent.level == "warning"


def test_messages_that_no_attack_looked_at_are_never_called_unsent(make_findings, findings):
    # As a label party with audit_every = 0 writes it: a row without an attack, messages applied.
    frozen = next(row for row in findings.rows if row.protection == "frozen")
    bound = next(
        row.guarantee
        for row in findings.rows
        if row.protection == "residual" and row.releases == "all"
    )
    row = frozen.model_copy(
        update={"protection": "residual", "strength": "sigma=4.26", "guarantee": bound}
    )
    document = make_findings(rows=[row, frozen], curves=[])
    found = {v.about: v.text for v in verdicts(document)}
    assert "at most 0.700 over the whole training is proven" in found["residual sigma=4.26"]
    assert "no attack was run" in found["residual sigma=4.26"]
    assert "residual" not in found["baselines"]
    assert "frozen" in found["baselines"]
    assert "residual sigma=4.26: no attack was run on it." in not_measured(document)
    assert "frozen: no attack was run on it." not in not_measured(document)


def test_gaps_are_named(make_findings, findings):
    assert not_measured(findings) == []
    labels = [
        row.model_copy(update={"one_class_batches": 3})
        for row in findings.rows
        if row.target == "labels"
    ]
    single = [
        u.model_copy(update={"test_auc": [0.7], "test_loss": [0.2]}) for u in findings.utility
    ]
    gaps = not_measured(
        make_findings(
            rows=labels,
            utility=single,
            complete=False,
            first_layer="not measured (bounded by the cut)",
        )
    )
    text = " ".join(gaps)
    for expected in ("interrupted", "bounded by the cut", "Canaries: none", "one split", "up to 3"):
        assert expected in text


def test_undefined_leaks_are_counted(make_findings, findings):
    rows = replaced(findings, "max_norm", "labels", leak_auc=None)
    gaps = not_measured(make_findings(rows=rows))
    assert any("max_norm: 20 leak AUCs are undefined" in gap for gap in gaps)
    assert any("such as norm, cosine, majority_count" in gap for gap in gaps)
    assert not any("no batch held both classes." in gap for gap in gaps)
    single = replaced(findings, "max_norm", "labels", leak_auc=None, one_class_batches=138)
    single = [r for r in single if r.attack is None or r.releases == "one"]
    text = " ".join(not_measured(make_findings(rows=single)))
    assert "10 leak AUCs are undefined, since no batch held both classes." in text
    once = list(findings.rows)
    place = next(i for i, row in enumerate(once) if row.protection == "max_norm")
    once[place] = once[place].model_copy(update={"leak_auc": None})
    gaps = not_measured(make_findings(rows=once))
    assert any("max_norm: 1 leak AUC is undefined" in gap for gap in gaps)


@pytest.mark.parametrize(
    ("leak", "words"),
    [(0.5, "50 of 100 pairs"), (0.994, "99 of 100 pairs"), (0.996, "more than 99 of 100 pairs")],
)
def test_pairs(leak, words):
    assert pairs(leak) == words


def test_an_estimate_of_one_split_has_no_error():
    assert estimate((0.7124, None)) == "0.712"
    assert estimate((0.7124, 0.0101)) == "0.712 ± 0.010"
    assert estimate(None) == "–"


def test_text_that_steers_a_terminal_or_turns_a_line_is_disarmed():
    assert printable("a\x1b[2J\nb‮c") == "a�[2J b�c"


def test_one_sentence_says_the_outcome(make_findings, findings):
    text = outcome(findings)
    assert ". " not in text
    assert "in more than 99 of 100 pairs under marvell s=4" in text
    assert "in 69 of 100 pairs under residual sigma=4.26, which gives away least" in text  # .690
    alone = make_findings(
        rows=[row for row in findings.rows if row.protection == "residual"], curves=[]
    )
    assert outcome(alone) == (
        "Under residual sigma=4.26 the worst attack tells a positive from a negative in 69 of 100 "
        "pairs; proven is at most 0.700."
    )
    nothing = make_findings(rows=[], curves=[])
    assert outcome(nothing).startswith("No attack was run")
    assert accounts(nothing) == []


def test_there_is_an_account_of_every_protection(findings):
    text = " ".join(accounts(findings))
    assert "5 attacks were run on 232,850 gradient rows" in text  # 5 x 46,570
    assert (
        "Under no_noise the worst attack, cosine, tells a positive from a negative in more" in text
    )
    assert "Under marvell s=4 the worst attack, tail_energy, " in text
    assert "a model allows 0.971, which the attack exceeds." in text
    assert "proven is at most 0.700, and on coins" in text
    assert "the worst attack reads 0.670." in text


def test_a_worst_attack_at_the_first_layer_says_so(make_findings, findings):
    rows = [
        row.model_copy(update={"leak_auc": 0.95})
        if (row.protection, row.layer, row.attack) == ("max_norm", "first", "norm")
        else row
        for row in findings.rows
        if not (row.protection == "max_norm" and row.releases == "all")
    ]
    text = verdict(make_findings(rows=rows), "max_norm").text
    assert "norm at the first layer tells a positive from a negative in 95 of 100" in text


def test_what_would_lower_the_worst_attack_is_said_by_its_family(make_findings, findings):
    rows = [
        row.model_copy(update={"family": "spectral"}) if row.attack == "tail_energy" else row
        for row in findings.rows
    ]
    text = verdict(make_findings(rows=rows), "marvell s=4").text
    assert "noise must fill every direction, for both classes alike" in text
    assert "Only residual (a proven bound) or frozen" in text


def test_an_interval_is_two_numbers_or_a_dash(findings):
    row = findings.rows[-1]
    assert interval(row) == "–"
    known = row.model_copy(update={"leak_auc_low": 0.6124, "leak_auc_high": 0.7})
    assert interval(known) == "0.612 to 0.700"


def test_what_an_earlier_start_sent_is_never_called_measured(make_findings):
    """Wherever attacks are said to cover the whole training, they must have seen all of it."""
    part = make_findings(messages_before=1200)
    said = [outcome(part), *accounts(part), *(v.text for v in verdicts(part)), *lead(part)]
    for sentence in said:
        measured = re.sub(
            r"at most [\d.]+ (over|from) the whole training|proven[^.;]*", "", sentence
        )
        assert "the whole training" not in measured
    assert "from the training since message 1,201" in " ".join(accounts(part))
    (gap,) = (gap for gap in not_measured(part) if "earlier start" in gap)
    assert gap.startswith("Messages 1 to 1,200: ")
    assert "`cutlayer audit`" not in gap


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        (1200, "They are on record: `cutlayer audit` on the run's folder attacks them."),
        (400, "400 of them are on record: `cutlayer audit` on the run's folder attacks those; "),
        (0, "None of them is on record: "),
    ],
)
def test_an_audit_is_promised_for_what_the_folder_holds_alone(make_findings, recorded, said):
    """Whatever the key ``record`` says at the last start."""
    part = make_findings(
        messages_before=1200, messages_recorded=recorded, settings={"record": 1 << 20}
    )
    (gap,) = (gap for gap in not_measured(part) if "earlier start" in gap)
    assert said in gap


@pytest.mark.parametrize("before", [0, 1200])
def test_some_of_the_messages_are_never_called_the_whole_training(make_findings, before):
    """With ``audit_every`` above 1 the attacks saw a part of each record's visits."""
    part = make_findings(messages_every=7, messages_before=before)
    said = [outcome(part), *accounts(part), *(v.text for v in verdicts(part)), *lead(part)]
    for sentence in said:
        measured = re.sub(
            r"at most [\d.]+ (over|from) the whole training|proven[^.;]*", "", sentence
        )
        assert "the whole training" not in measured
    assert "from one of every 7 messages" in " ".join(accounts(part))
    assert release_names(seen_by(part))["all"] == "one of every 7 messages"
    (gap,) = (gap for gap in not_measured(part) if "audit_every" in gap)
    assert gap.startswith("Most messages: the attacks looked at one of every 7 (audit_every)")


def test_what_nobody_recorded_is_named_and_never_called_measured(make_findings):
    part = make_findings(
        messages_before=100, messages_missing=[(200, 200), (401, 1500)], messages_sent=1500
    )
    said = [outcome(part), *accounts(part), *(v.text for v in verdicts(part)), *lead(part)]
    for sentence in said:
        measured = re.sub(
            r"at most [\d.]+ (over|from) the whole training|proven[^.;]*", "", sentence
        )
        assert "the whole training" not in measured
        assert "since message" not in measured
    assert "from the recorded messages" in " ".join(accounts(part))
    assert release_names(seen_by(part))["all"] == "recorded messages"
    (gap,) = (gap for gap in not_measured(part) if "not on record" in gap)
    assert gap.startswith(
        "Message 200 and messages 401 to 1,500, the end of the run: sent, but not on record"
    )
    later = make_findings(messages_missing=[(5, 6)], messages_sent=1500)
    (gap,) = (gap for gap in not_measured(later) if "not on record" in gap)
    assert gap.startswith("Messages 5 to 6: sent")
