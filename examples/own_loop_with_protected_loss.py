"""A loop of one's own with a rigorous protection: noise on the residual, and two tops."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn import functional

from cutlayer import Residual, protected_loss


def main() -> float:
    data, target = load_breast_cancer(return_X_y=True)
    features = functional.normalize(torch.tensor(data, dtype=torch.float32), dim=0) * 20
    labels = torch.tensor(target)
    bottom = nn.Linear(30, 16)
    message_top, prediction_top = (nn.Sequential(nn.ReLU(), nn.Linear(16, 1)) for _ in range(2))
    optimizer = torch.optim.Adam(
        [
            {"params": bottom.parameters(), "lr": 0.001},
            {"params": message_top.parameters(), "lr": 0.001},
            {"params": prediction_top.parameters(), "lr": 0.01},
        ]
    )
    protection = Residual(max_leak_auc=0.7, releases=20)  # 20 visits of each record are planned
    for rows in (torch.arange(512).split(128)) * 20:
        activation = bottom(features[rows])
        messages = protected_loss(
            message_top(activation).squeeze(1), labels[rows], protection, records=rows
        )
        # Clean labels meet a detached activation: nothing of this reaches the bottom half.
        logit = prediction_top(activation.detach()).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(logit, labels[rows].float())
        optimizer.zero_grad()
        (messages + loss).backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(f"loss {main():.3f}")
