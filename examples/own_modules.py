"""Two parties with modules of one's own: here in two threads, elsewhere with a real transport.

The same classes serve the commands: ``model = "own_modules:Bottom"`` in the configuration.
"""

import threading

import torch
from torch import Tensor, nn

from cutlayer.data import DATASETS
from cutlayer.parties import InputShape, LabelParty, NonLabelParty, Terms
from cutlayer.protections import Residual
from cutlayer.protocol import in_memory_pair
from cutlayer.rng import SecretNoise


class Bottom(nn.Module):
    def __init__(self, columns: int, cut_width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(columns, 32), nn.GELU(), nn.Linear(32, cut_width))

    def forward(self, columns: Tensor) -> Tensor:
        return self.layers(columns)


class Top(nn.Module):
    def __init__(self, cut_width: int, own_columns: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(cut_width + own_columns), nn.GELU(), nn.Linear(cut_width + own_columns, 1)
        )

    def forward(self, activation: Tensor, own_columns: Tensor) -> Tensor:
        return self.layers(torch.cat([activation, own_columns], dim=1)).squeeze(1)


def adam(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def make_top(_: str, cut_width: int, own: InputShape) -> nn.Module:
    return Top(cut_width, own.width)


def main() -> float:
    data = DATASETS["breast-cancer"]().load()
    terms = Terms(
        run="example", data=data.name, protection="residual", epochs=20, batch_size=64, cut_width=16
    )
    protection = Residual(max_leak_auc=0.7, releases=terms.epochs)
    label_party = LabelParty(
        data.label_party, terms, protection, make_top, adam, noise=SecretNoise()
    )
    non_label_party = NonLabelParty(
        data.non_label_party, terms, lambda own: Bottom(own.width, terms.cut_width), adam
    )
    here, there = in_memory_pair()
    peer = threading.Thread(target=non_label_party.run, args=(there,))
    peer.start()
    half = label_party.run(here)
    peer.join()
    return half.test.auc


if __name__ == "__main__":
    print(f"test AUC {main():.3f}")
