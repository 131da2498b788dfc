from sklearn.datasets import load_breast_cancer

from cutlayer.data.bundled.breast_cancer import BreastCancer


def test_every_patient_has_the_values_of_the_file():
    bunch = load_breast_cancer()
    lines = [dict(zip(bunch.feature_names, line, strict=True)) for line in bunch.data]
    data = BreastCancer().load()
    for table in (data.non_label_party, data.label_party):
        assert len(table) == 569
        assert table.features.width == 10
        for name, row in zip(table.ids, table.features.iter_rows(named=True), strict=True):
            line = lines[int(name.removeprefix("patient-")) - 1]
            assert row == {column: line[column] for column in row}


def test_malignant_is_positive():
    bunch = load_breast_cancer()
    assert list(bunch.target_names) == ["malignant", "benign"]
    table = BreastCancer().label_party_table()
    rows = [int(name.removeprefix("patient-")) - 1 for name in table.ids]
    assert table.labels is not None
    assert table.labels.tolist() == [int(bunch.target[row] == 0) for row in rows]
    assert int(table.labels.sum()) == 212


def test_columns_and_orders_differ_between_the_parties():
    data = BreastCancer().load()
    assert all(name.startswith("mean ") for name in data.non_label_party.features.columns)
    assert all(name.endswith(" error") for name in data.label_party.features.columns)
    assert data.non_label_party.ids != data.label_party.ids
    assert set(data.non_label_party.ids) == set(data.label_party.ids)
