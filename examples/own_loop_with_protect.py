"""A training loop of one's own, with one line added: the gradient is perturbed on its way back."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn import functional

from cutlayer import Marvell, protect


def main() -> float:
    data, target = load_breast_cancer(return_X_y=True)
    features = functional.normalize(torch.tensor(data, dtype=torch.float32), dim=0) * 20
    labels = torch.tensor(target)
    bottom, top = nn.Linear(30, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam([*bottom.parameters(), *top.parameters()], lr=0.01)
    protection = Marvell(s=4.0)
    for rows in (torch.arange(512).split(128)) * 20:
        activation = protect(bottom(features[rows]), labels[rows], protection)
        logit = top(activation).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(logit, labels[rows].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(f"loss {main():.3f}")
