"""The findings of a transcript that another framework made."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from cutlayer.audits.array_limit import default_limit
from cutlayer.audits.external_transcript import read_external_transcript
from cutlayer.audits.scope import AnyAttack, AuditScope
from cutlayer.audits.training_audit import audit_training
from cutlayer.findings.document import Applied, Bound, Findings, Utility
from cutlayer.findings.rows import Attacked, Audited, attack_fields

NAME = "transcript"
"""Stands for the protection, which a transcript does not name."""

_UNKNOWN = Bound(
    kind="none",
    leak_auc=None,
    grounds="A transcript does not say how its gradients were protected, so nothing is proven.",
)


def findings_of_external_transcript(
    path: Path,
    *,
    attacks: Mapping[str, AnyAttack] | None,
    scope: AuditScope,
    on_progress: Callable[[int, int], None],
    workers: int = 1,
    max_bytes: int | None = None,
) -> Findings:
    """Read and attack a transcript.

    Args:
        path: a file or a folder, as :func:`read_external_transcript` reads it.
        attacks: which attacks to run, by name; ``None`` for all that the scope allows. Those that
            need a clean gradient cannot run, since a transcript holds none.
        scope: how much the attackers know, how often they try, and after which epochs to measure.
        on_progress: told how many releases are done, and how many there are.
        workers: how many processes share the attacks, as in
            :func:`~cutlayer.audits.training_audit.audit_training`; each holds the transcript.
        max_bytes: most that the arrays may take in memory; by default what
            :func:`~cutlayer.audits.array_limit.default_limit` says.

    Raises:
        DataError: the transcript breaks a rule.
        ValueError: an attack refuses a release.
    """
    limit = default_limit(path, workers) if max_bytes is None else max_bytes
    read = partial(read_external_transcript, path, max_bytes=limit)
    training = read()
    total = len(training.releases)
    if any(release.epoch for release in islice(training.releases, 1)):
        scope = replace(scope, after=())  # the first epochs are not in it
    audit = audit_training(
        training,
        attacks=attacks,
        scope=scope,
        on_release=lambda done: on_progress(done, total),
        workers=workers,
        read_again=read,
    )
    utility = Utility(protection=NAME, strength="-", test_auc=[], test_loss=[])
    audited = Audited(utility, _UNKNOWN, _UNKNOWN)
    features = training.features
    return Findings(
        **attack_fields([Attacked(audited, audit)]),
        data=path.name,
        train_records=len(training.truth),
        test_records=0 if training.held_out is None else len(training.held_out.labels),
        positive_share=float(training.truth.labels.double().mean()),
        features_non_label_party=0 if features is None else int(features.shape[1]),
        features_label_party=0,
        settings={"transcript": str(path)},
        processes=0,
        noise="unknown",
        hint="",
        first_layer="not measured (bounded by the cut): a transcript holds no model",
        complete=True,
        applied=[
            Applied(
                protection=NAME,
                strength="-",
                stage="unknown",
                releases=audit.leak.releases,
                rows=audit.leak.rows,
                statement=f"Unknown. {audit.leak.rows:,} gradient rows of "
                f"{audit.leak.releases:,} messages were attacked.",
            )
        ],
        utility=[utility],
    )
