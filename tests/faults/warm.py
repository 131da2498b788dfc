"""What torch loads at the first training step, loaded once in the server that parties fork from."""

import torch

from tests.faults.parties import Plan, non_label_party  # noqa: F401  loads cutlayer

torch.set_num_threads(1)
_weight = torch.nn.Parameter(torch.zeros(2))
_optimizer = torch.optim.Adam([_weight])
_weight.sum().backward()
_optimizer.step()
torch.func.functional_call(torch.nn.Linear(1, 1), {}, torch.zeros(1, 1))
