import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file

from cutlayer.audits import AuditScope, audit_leak
from cutlayer.audits.array_limit import default_limit, memory_bytes
from cutlayer.audits.external_arrays import is_external
from cutlayer.audits.external_transcript import read_external_transcript
from cutlayer.audits.scope import attack_named
from cutlayer.audits.training_audit import audit_training
from cutlayer.errors import DataError
from cutlayer.findings.external import findings_of_external_transcript


def arrays(records=60, epochs=3, seed=0):
    """Two batches an epoch; gradients that tell every label, in rows of no order."""
    draws = np.random.default_rng(seed)
    labels = (np.arange(records) % 3 == 0).astype(np.int64)
    step = np.repeat(np.arange(2 * epochs), records // 2)
    ids = np.concatenate([draws.permutation(records) for _ in range(epochs)])
    mixed = draws.permutation(len(ids))
    gradient = (1 / 3 - labels[ids])[:, None] * np.array([1.0, -2.0])
    table = {
        "gradient": gradient + 0.01 * draws.normal(size=gradient.shape),
        "ids": ids,
        "labels": labels[ids],
        "step": step,
        "epoch": step // 2,
    }
    return {name: values[mixed] for name, values in table.items()}


def save(path, table):
    if path.suffix == ".npz":
        np.savez(path, **table)
    elif path.suffix == ".safetensors":
        save_numpy({k: np.ascontiguousarray(v) for k, v in table.items()}, path)
    else:
        path.mkdir()
        for name, values in table.items():
            np.save(path / f"{name}.npy", values)
    return path


@pytest.mark.parametrize("name", ["sent.npz", "sent.safetensors", "sent"])
def test_every_form_is_read_alike(tmp_path, name):
    table = arrays()
    path = save(tmp_path / name, table)
    assert is_external(path)
    found = read_external_transcript(path)
    releases = list(found.releases)
    assert len(found.releases) == len(releases) == 6
    assert [release.epoch for release in releases] == [0, 0, 1, 1, 2, 2]
    for release in releases:
        # Each row by its own way: the one row of this step and record in the table.
        for record, row in zip(release.records.tolist(), release.gradient, strict=True):
            (place,) = np.nonzero((table["ids"] == record) & (table["step"] == release.step))[0]
            assert row.tolist() == table["gradient"][place].tolist()
    assert found.truth.labels.tolist() == [int(record % 3 == 0) for record in range(60)]
    audit = audit_leak(found.releases, found.truth)
    norm = next(m for m in audit.measurements if m.attack == "norm" and m.releases == "all")
    assert norm.raw_auc == 1.0


def test_pieces_are_joined_and_other_names_understood(tmp_path):
    table = arrays()
    (tmp_path / "sent").mkdir()
    for piece, rows in enumerate((slice(0, 100), slice(100, None))):
        part = {
            "gradients": torch.from_numpy(table["gradient"][rows].copy()).bfloat16(),
            "records": torch.from_numpy(table["ids"][rows].copy()),
            "label": torch.from_numpy(table["labels"][rows].copy()).float(),
            "steps": torch.from_numpy(table["step"][rows].copy()),
            "epochs": torch.from_numpy(table["epoch"][rows].copy()),
        }
        save_file(part, tmp_path / "sent" / f"part-{piece}.safetensors")
    found = read_external_transcript(tmp_path / "sent")
    assert sum(len(release.records) for release in found.releases) == 180


def test_ids_may_be_texts_and_features_belong_to_records(tmp_path):
    table = arrays()
    table["ids"] = np.array([f"customer {i:03d}" for i in table["ids"]])
    table["features"] = np.array([[float(i[-3:]), 1.0] for i in table["ids"]])
    found = read_external_transcript(save(tmp_path / "sent.npz", table))
    assert found.features[:, 0].tolist() == list(range(60))


def test_inference_is_audited_where_it_was_recorded(tmp_path):
    table = arrays()
    labels = np.arange(80) % 2
    table["inference_labels"] = labels
    table["inference_activation"] = np.stack([labels * 2.0 - 1, np.cos(np.arange(80))], axis=1)
    found = read_external_transcript(save(tmp_path / "sent.npz", table))
    audit = audit_training(found, scope=AuditScope(hints=(0, 1, 5), few_records=True))
    at_inference = [m for m in audit.leak.measurements if m.stage == "inference"]
    assert {m.attack for m in at_inference} >= {"activation_spectrum", "activation_probe"}
    for m in at_inference:
        if m.attack == "activation_probe" and m.hints == 5:
            assert m.leak_auc == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gradient": None}, "array 'gradient' is missing; there are epoch, ids, labels, step"),
        ({"epoch": None}, "array 'epoch' is missing"),
        ({"colour": np.zeros(180)}, "array 'colour' is unknown. Known: gradient"),
        ({"gradients": np.zeros((180, 2))}, "gradient is there under two names"),
        ({"labels": np.zeros(7)}, r"labels must have 180 entries .* got shape \(7,\)"),
        ({"labels": np.full(180, 2)}, "labels must hold only 0 and 1, got 2"),
        ({"labels": np.zeros(180)}, "both classes, got 0 alone"),
        ({"labels": np.arange(180) % 2}, "one label in all its rows"),
        ({"labels": np.array(["a"] * 180)}, "labels must be numbers"),
        ({"gradient": np.zeros(180)}, r"gradient must be a float array of shape \(rows, width\)"),
        ({"gradient": np.zeros((180, 2), dtype=np.int64)}, "gradient must be a float array"),
        ({"gradient": np.full((180, 2), np.nan)}, "NaN or infinity in 180 rows"),
        ({"gradient": np.zeros((0, 2))}, "at least one row"),
        ({"step": np.zeros(180)}, "step must be whole numbers"),
        ({"step": np.full(180, -1)}, "step must be at least 0, got -1"),
        ({"step": np.zeros(180, dtype=np.int64), "epoch": np.arange(180)}, "one epoch, got sev"),
        ({"step": np.zeros(180, dtype=np.int64), "epoch": np.zeros(180, dtype=np.int64)},
         "a record must stand in a step at most once, got one twice in step 0"),
        ({"ids": np.zeros((180, 2))}, "ids must be whole numbers or texts"),
        ({"inference_labels": np.zeros(3)}, "needs inference_activation beside it"),
        ({"inference_labels": np.zeros(3), "inference_activation": np.zeros((4, 1))},
         "inference_labels must be 4 values"),
        ({"inference_labels": np.array(["0", "1"]), "inference_activation": np.zeros((2, 1))},
         "inference_labels must be 2 values 0 or 1, got <U1"),
        ({"step": np.full(180, 2**63, dtype=np.uint64)}, "step must be at most 92233720368"),
        ({"labels": np.zeros((180, 0))}, r"labels must be numbers .* of shape \(180, 0\)"),
        ({"gradient": np.zeros((180, 0))}, r"of shape \(rows, width\), got float64 of shape"),
        ({"features": np.zeros((180, 0))}, "features must be a float array of shape"),
        ({"gradient": np.full((180, 2), "x")}, "gradient must be a float array"),
        ({"gradient": np.full((180, 2), np.longdouble("1e400"))}, "must be finite, got NaN or inf"),
    ],
)  # fmt: skip
def test_each_wrong_thing_is_named_with_its_file(tmp_path, change, message):
    table = arrays() | change
    path = save(tmp_path / "sent.npz", {k: v for k, v in table.items() if v is not None})
    with pytest.raises(DataError, match=message) as caught:
        read_external_transcript(path)
    assert "sent.npz" in str(caught.value)


def test_epochs_that_fall_are_refused(tmp_path):
    table = arrays()
    table["epoch"] = 2 - table["epoch"]
    with pytest.raises(DataError, match="epochs must not fall as steps grow, got that at step 2"):
        read_external_transcript(save(tmp_path / "sent.npz", table))


def test_a_long_double_is_read_as_float64(tmp_path):
    table = arrays()
    longer = table | {n: table[n].astype(np.longdouble) for n in ("gradient", "labels")}
    (found, expected) = (
        read_external_transcript(save(tmp_path / name, values))
        for name, values in (("a.npz", longer), ("b.npz", table))
    )
    for one, other in zip(found.releases, expected.releases, strict=True):
        assert torch.equal(one.gradient, other.gradient)
    assert torch.equal(found.truth.labels, expected.truth.labels)


@pytest.mark.parametrize("order", [">", "<"])
def test_every_order_of_bytes_is_read(tmp_path, order):
    table = arrays()
    turned = {
        name: values.astype(f"{order}{values.dtype.str[1:]}") for name, values in table.items()
    }
    (found, expected) = (
        read_external_transcript(save(tmp_path / name, values))
        for name, values in (("a.npz", turned), ("b.npz", table))
    )
    for one, other in zip(found.releases, expected.releases, strict=True):
        assert (one.step, one.epoch) == (other.step, other.epoch)
        assert torch.equal(one.gradient, other.gradient)
        assert torch.equal(one.records, other.records)


@pytest.mark.parametrize("name", ["sent.npz", "sent.safetensors", "sent"])
def test_arrays_beyond_the_limit_are_not_read(tmp_path, name):
    path = save(tmp_path / name, arrays())
    needed = 180 * (2 * 8 + 8 + 8 + 8 + 8)
    read_external_transcript(path, max_bytes=needed)
    with pytest.raises(DataError, match=r"take 8,640 bytes .* 8,639 are read.*--max-bytes"):
        read_external_transcript(path, max_bytes=needed - 1)


def test_a_small_file_that_unpacks_to_much_is_not_read_by_default(tmp_path):
    """Whatever the machine's memory: real gradients hardly shrink."""
    small, large = tmp_path / "small.npz", tmp_path / "large.npz"
    small.write_bytes(bytes(1000))
    large.write_bytes(bytes(8 << 20))
    assert default_limit(small, 1) == min(256 << 20, memory_bytes() // 2)
    assert default_limit(large, 1) == min(512 << 20, memory_bytes() // 2)
    assert default_limit(large, 10**6) == memory_bytes() // (2 * 10**6)


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "sent.npz", gradient=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="holds Python objects, which are never unpickled"):
        read_external_transcript(tmp_path / "sent.npz")


@pytest.mark.parametrize("name", ["sent.npz", "sent.safetensors"])
def test_damaged_files_are_named(tmp_path, name):
    path = save(tmp_path / name, arrays())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="is damaged or no"):
        read_external_transcript(path)


def test_what_is_no_transcript_is_named(tmp_path):
    with pytest.raises(DataError, match="There is no"):
        read_external_transcript(tmp_path / "nothing.npz")
    (tmp_path / "sent.pt").touch()
    with pytest.raises(DataError, match=r"must be a \.npz or \.safetensors file"):
        read_external_transcript(tmp_path / "sent.pt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"neither \.npy, \.npz nor \.safetensors"):
        read_external_transcript(tmp_path / "empty")
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    np.savez(pieces / "a.npz", gradient=np.zeros((1, 1)))
    np.savez(pieces / "b.npz", ids=np.zeros(1))
    with pytest.raises(DataError, match=r"must hold the arrays of a.npz"):
        read_external_transcript(pieces)


@pytest.mark.parametrize(("begins", "measured"), [(0, {1, 2}), (2, set())])
def test_a_transcript_without_the_first_epochs_tells_nothing_of_them(tmp_path, begins, measured):
    table = arrays()
    table["epoch"] = table["epoch"] + begins
    findings = findings_of_external_transcript(
        save(tmp_path / "sent.npz", table),
        attacks={"norm": attack_named("norm")},
        scope=AuditScope(after=(1, 2, 5)),
        on_progress=lambda done, total: None,
    )
    assert {row.epochs for row in findings.rows if row.releases == "some"} == measured
