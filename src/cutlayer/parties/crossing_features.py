"""Crossing features: what each party is told of the components that ``frozen`` sends."""

from torch import Tensor

from cutlayer.models import Carried


def refused_copy(carried: Carried) -> str:
    """Why the non-label party does not send its components, and what would do."""
    if carried.rank <= carried.width:
        return (
            f"cut_width: frozen would send an invertible copy of all features: cut_width is "
            f"{carried.width}, and the {_columns(carried)} of the training records have rank "
            f"{carried.rank}. {_way_out(carried)}"
        )
    return (
        f"cut_width: frozen would send nearly a copy of all features: from {carried.width} "
        f"components (cut_width) each of the {carried.recovered} columns that differ between "
        f"training records can be computed but for 1 % of its variance or less. {_way_out(carried)}"
    )


def what_crosses(carried: Carried) -> str:
    """How much of its features the non-label party is about to send."""
    if carried.rank == 0:
        return "no column differs from record to record, so the components that cross are 0."
    sentence = (
        f"{carried.width} principal components cross, of {_columns(carried)} of rank "
        f"{carried.rank}. They carry {carried.variance:.1%} of the variance; "
        f"{carried.recovered} of the columns can be computed from them but for 1 % or less."
    )
    if carried.is_copy:
        return f"WARNING: all features leave, as allow_feature_copy says. {sentence}"
    if carried.is_nearly_copy:
        return f"WARNING: nearly all of the features leave. {sentence} {_way_out(carried)}"
    return sentence


def allowed_copy(width: int) -> str:
    """What the label party is told before components come that may be a copy."""
    return (
        "WARNING: the non-label party has set allow_feature_copy: the "
        f"{width} components that it sends may be an invertible copy of all its features. If this "
        "party must not hold them, stop it now, and agree on a smaller cut_width."
    )


def components_of(activation: Tensor) -> int:
    """How many of the components that came differ from record to record.

    Args:
        activation: of all records, float ``(records, width)``.
    """
    return int((activation != activation[:1]).any(dim=0).sum()) if len(activation) else 0


def arrived(components: int, width: int) -> str:
    """What came, for the label party; fewer components than were asked for are all there are."""
    sentence = f"{components} principal components of the non-label party's features crossed"
    if 0 < components < width:
        return f"{sentence}, fewer than cut_width: they are a copy of all of them."
    return f"{sentence}; at or above the features' rank they would be a copy of all of them."


def _columns(carried: Carried) -> str:
    """The number of encoded columns, in words."""
    return "1 column" if carried.columns == 1 else f"{carried.columns} columns"


def _way_out(carried: Carried) -> str:
    """A smaller width, or consent."""
    consent = "set allow_feature_copy = true at the non-label party if all of them may leave"
    if carried.copy_width <= 1:
        return f"Any width is a copy of them: choose another protection, or {consent}."
    return (
        f"Set cut_width below {carried.copy_width} at both parties ({carried.most} components "
        f"carry 90 % of the variance), or {consent}."
    )
