"""Every attack on every protection, on real data sets: the tables of docs/audit_results.md.

    python benchmarks/audit_results.py ../shared/data [--data caravan] [--models] [--out FOLDER]

For each data set and protection a training of 20 epochs on the true labels, and for those with a
proven bound one more with canaries, attacked at the cut by everybody who knows nothing, 5 records
of each class, or half of the labels. `--models` adds the attacks that train a model for each
release. One core: about half a minute each on caravan, some minutes on credit. A training that is
already in the folder is not done again. Prints Markdown.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

from cutlayer.audits.scope import AuditScope
from cutlayer.experiments.tradeoff.image_file import read_images
from cutlayer.findings.document import FindingRow, Findings, read_findings, write_findings
from cutlayer.runs.canary_run import findings_of_canary_run

EPOCHS, CUT, SIDE = 20, 32, 32
SCOPE = AuditScope(
    hints=(0, 5),
    seeds=1,
    after=(1, 5),
    few_records=True,
    histories=True,
)
PROTECTIONS = (
    "no_noise",
    "isotropic:t=1",
    "max_norm",
    "marvell:s=1",
    "marvell:s=4",
    "marvell:s=16",
    "residual:sigma=1",
    "residual:sigma=2",
)
CANARIES = {"caravan": 1000, "credit": 4000, "images": 300}
SHARED = f"""\
epochs = {EPOCHS}
cut_width = {CUT}
weight_decay = 0.01
validation_share = 0.0
"""
LARGE, SMALL = "batch_size = 512\n", "batch_size = 128\n"
FILES = {
    "caravan": (
        'file = "{root}/islp-caravan-default/Caravan.csv.gz"\nid = "(row number)"\n' + LARGE,
        'label = "Purchase"\npositive = "Yes"\nnegative = "rest"\nkeep = ["P*", "A*"]\n',
        'keep = ["M*"]\ncategorical = ["MOSTYPE", "MOSHOOFD"]\n',
    ),
    "credit": (
        'file = "{root}/uci-credit-default/UCI_Credit_Card.csv.gz"\nid = "ID"\nbatch_size = 512\n',
        'label = "default.payment.next.month"\nkeep = ["PAY_AMT*"]\n',
        'drop = ["PAY_AMT*", "default.payment.next.month"]\n',
    ),
    # Melanoma or not: 1,000 images of 32x32 at the non-label party, each pixel a column.
    "images": (
        'file = "{folder}/images.parquet"\nid = "id"\n' + SMALL,
        'label = "melanoma"\nkeep = []\ndrop = ["pixel*"]\n',
        'keep = ["pixel*"]\n',
    ),
}
WORST = "worst of all"


def configurations(data: str, protection: str, root: Path, folder: Path) -> tuple[Path, Path]:
    """The two parties' files for one training."""
    both, label, other = FILES[data]
    own = both.format(root=root, folder=folder.parent)
    head = f'run = "{data}"\nprotection = "{protection}"\n{SHARED}{own}'
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "label.toml", folder / "other.toml"
    for path, rest in zip(paths, (label, other), strict=True):
        path.write_text(head + rest)
    return paths


def write_images(root: Path, out: Path) -> None:
    """The images as a table, in the folder of the results."""
    source = root / "ham10000-melanoma-84" / "ham_isic_84_uint8_1000.npz"
    label_party, images = read_images(source, SIDE)
    pixels = (255 * images.features.flatten(1)).round().to(torch.uint8).numpy()
    columns = {f"pixel{index:04d}": column for index, column in enumerate(pixels.T)}
    table = pl.DataFrame({"id": images.ids, "melanoma": label_party.labels.tolist(), **columns})
    out.mkdir(parents=True, exist_ok=True)
    table.write_parquet(out / "images.parquet")


def trained(
    data: str, protection: str, canaries: int, root: Path, out: Path, scope: AuditScope
) -> Findings:
    """The findings of one training, done now or before."""
    name = f"{data}-{protection.replace(':', '-')}-{'coins' if canaries else 'labels'}"
    folder = out / name
    if not (folder / "findings.json").exists():
        began = time.monotonic()
        findings = findings_of_canary_run(
            *configurations(data, protection, root, folder),
            canaries=canaries,
            folder=folder,
            attacks=None,
            scope=scope,
            on_progress=lambda done, total: None,  # noqa: ARG005
            first_layer=False,
        )
        write_findings(findings, folder / "findings.json")
        for part in ("messages", "handed_over"):
            for file in sorted((folder / part).rglob("*.safetensors")):
                file.unlink()
        print(f"<!-- {name}: {time.monotonic() - began:.0f} s -->", flush=True)
    return read_findings(folder / "findings.json")


def cells(findings: Findings, releases: str) -> dict[str, FindingRow]:
    """The strongest knowledge of each attack, over one release or all."""
    best: dict[str, FindingRow] = {}
    for row in findings.rows:
        if row.attack is None or row.leak_auc is None or row.releases != releases:
            continue
        if row.attack not in best or row.leak_auc > (best[row.attack].leak_auc or 0):
            best[row.attack] = row
    return best


def table(found: dict[str, Findings], releases: str) -> Iterator[str]:
    """One Markdown table: attacks by protections, worst on average first."""
    columns = {protection: cells(findings, releases) for protection, findings in found.items()}
    attacks = sorted(
        {name for column in columns.values() for name in column},
        key=lambda name: -max(c[name].leak_auc or 0 for c in columns.values() if name in c),
    )
    yield "| attack | " + " | ".join(f"`{protection}`" for protection in columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    worst = [max((row.leak_auc or 0 for row in c.values()), default=0) for c in columns.values()]
    yield f"| **{WORST}** | " + " | ".join(f"**{value:.3f}**" for value in worst) + " |"
    for name in attacks:
        values = [
            f"{column[name].leak_auc:.3f}" if name in column else "–" for column in columns.values()
        ]
        yield f"| `{name}` | " + " | ".join(values) + " |"


def checks(data: str, labels: dict[str, Findings], coins: dict[str, Findings]) -> Iterator[str]:
    """The known results, each with what came out."""

    def reached(found: dict[str, Findings], protection: str, attack: str, releases: str) -> float:
        return cells(found[protection], releases)[attack].leak_auc or 0.0

    for s in (1, 4, 16):
        value = reached(labels, f"marvell:s={s}", "tail_energy", "one")
        yield told(f"{data}: tail energy on marvell s={s}, one release", value, ">=", 0.95)
    value = reached(labels, "max_norm", "first_component", "all")
    yield told(f"{data}: first component on max_norm, {EPOCHS} epochs", value, ">=", 0.95)
    averages = ("cosine", "first_component", "hinted_component", "majority_count", "norm")
    value = max(reached(labels, "marvell:s=4", name, "all") for name in averages)
    yield told(f"{data}: best classical average on marvell s=4, {EPOCHS} epochs", value, ">=", 0.9)
    for sigma in (1, 2):
        rows = [
            row
            for row in coins[f"residual:sigma={sigma}"].rows
            if row.leak_auc is not None and row.stage == "training"
        ]
        excess = [
            (row.leak_auc - row.guarantee.leak_auc - 5 * (row.null_deviation or 0), row)
            for row in rows
            if row.leak_auc is not None and row.guarantee.leak_auc is not None
        ]
        over, row = max(excess, key=lambda pair: pair[0])
        yield told(
            f"{data}: residual sigma={sigma}, coins less bound and 5 standard errors, worst of "
            f"{len(rows)} readings (`{row.attack}`, {row.releases})",
            over,
            "<=",
            0.0,
        )


def told(what: str, value: float, sign: str, limit: float) -> str:
    """One line of the list of checks."""
    holds = value >= limit if sign == ">=" else value <= limit
    return f"- {'holds' if holds else '**DOES NOT HOLD**'}: {what}: {value:.3f} {sign} {limit}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--data", choices=[*FILES], action="append")
    parser.add_argument("--out", type=Path, default=Path("runs/audit-results"))
    parser.add_argument("--models", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    root, scope = options.root.resolve(), replace(SCOPE, expensive=options.models)
    for data in options.data or FILES:
        count, out = CANARIES[data], options.out
        if data == "images":
            write_images(root, out)
        labels = {p: trained(data, p, 0, root, out, scope) for p in PROTECTIONS}
        coins = {
            p: trained(data, p, count, root, out, scope) for p in PROTECTIONS if "residual" in p
        }
        records = labels["no_noise"].train_records
        print(f"## {data}: {records:,} training records\n")
        for releases, title in (("one", "One release"), ("all", f"{EPOCHS} epochs")):
            print(f"### {title}, true labels\n")
            print("\n".join(table(labels, releases)), end="\n\n")
        print(f"### {EPOCHS} epochs, coins of {CANARIES[data]:,} canaries\n")
        print("\n".join(table(coins, "all")), end="\n\n")
        print("\n".join(checks(data, labels, coins)), end="\n\n")


if __name__ == "__main__":
    main()
