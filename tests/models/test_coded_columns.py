import pytest
import torch

from cutlayer.models import CodedColumns, RowAdam, WideDeepBottom


def seeded(number=0):
    return torch.Generator().manual_seed(number)


def test_a_code_is_the_row_of_its_own_columns_table():
    columns = CodedColumns(1, [3, 2]).embedding(4, seeded())
    row = columns(torch.tensor([[0.5, 2.0, 1.0]]))[0]
    # Rows 0 to 2 are the first column's codes, 3 and 4 the second's.
    expected = torch.cat(
        [torch.tensor([0.5]), columns.vectors.weight[2], columns.vectors.weight[4]]
    )
    assert torch.equal(row, expected)
    assert columns.width == 1 + 2 * 4


@pytest.mark.parametrize("code", [-1.0, 3.0])
def test_a_code_of_another_column_is_refused(code):
    with pytest.raises(ValueError, match="codes must lie below"):
        CodedColumns(0, [3, 2]).embedding(4, seeded())(torch.tensor([[code, 0.0]]))


def test_the_wide_logit_is_a_sum_of_weights():
    bottom = WideDeepBottom(CodedColumns(1, [3, 2]), 5, [8], seeded())
    activation = bottom(torch.tensor([[0.5, 2.0, 1.0]]))
    wide = bottom.wide
    expected = (
        0.5 * wide.numbers.weight[0, 0]
        + wide.numbers.bias[0]
        + wide.codes.vectors.weight[2, 0]
        + wide.codes.vectors.weight[4, 0]
    )
    assert activation.shape == (1, 5)
    assert torch.allclose(activation[0, -1], expected)


def test_a_table_that_every_batch_touches_moves_as_under_adam():
    # torch's own Adam on the same table, dense, is the reference.
    generator = seeded()
    start = torch.randn(5, 3, generator=generator)
    targets = torch.randn(4, 5, 3, generator=generator)
    tables = [torch.nn.Embedding(5, 3, sparse=sparse) for sparse in (True, False)]
    for table in tables:
        table.weight.data.copy_(start)
    optimizers = [
        kind([table.weight], lr=0.1, weight_decay=0.02)
        for kind, table in zip((RowAdam, torch.optim.Adam), tables, strict=True)
    ]
    for target in targets:
        for table, optimizer in zip(tables, optimizers, strict=True):
            optimizer.zero_grad()
            (table(torch.arange(5)) - target).square().sum().backward()
            optimizer.step()
    assert torch.allclose(tables[0].weight, tables[1].weight, atol=1e-6)


def test_rows_that_were_not_in_the_batch_stay():
    table = torch.nn.Embedding(4, 2, sparse=True)
    before = table.weight.detach().clone()
    dense = torch.nn.Parameter(torch.ones(2))
    optimizer = RowAdam([table.weight, dense], lr=0.1, weight_decay=0.5)
    (table(torch.tensor([1, 1, 3])).sum() + dense.sum()).backward()
    optimizer.step()
    moved = (table.weight != before).any(dim=1)
    assert moved.tolist() == [False, True, False, True]
    assert not torch.equal(dense, torch.ones(2))  # dense ones are still moved
