"""A party under the system's limits, and while strangers take what those leave."""

import json
import resource
import shutil
import socket
import threading
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file

from tests.protocol.networks import make_identities
from tests.runs.command import Command
from tests.runs.test_two_commands import assert_ended_well, pair  # noqa: F401

MODULE = """
import torch

class Top(torch.nn.Linear):
    def __init__(self, cut_width, own_columns):
        super().__init__(cut_width + own_columns, 1)
        torch.nn.init.constant_(self.weight, 0.1)
        torch.nn.init.zeros_(self.bias)

    def forward(self, activation, own):
        return super().forward(torch.cat([activation, own], 1)).squeeze(1)

def bottom(columns, cut_width):
    layer = torch.nn.Linear(columns, cut_width)
    torch.nn.init.constant_(layer.weight, 0.1)
    torch.nn.init.zeros_(layer.bias)
    return layer
"""
FILES, SPACE = resource.RLIMIT_NOFILE, resource.RLIMIT_AS


@pytest.mark.parametrize("command", ["label-party", "doctor", "predict", "prepare"])
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({FILES: 20}, ["20 files and connections", "at least 64", "LimitNOFILE", "ulimit -n"]),
        ({SPACE: 1_500_000_000}, ["map 1.4 GiB", "ulimit -v", "MemoryMax"]),
    ],
)
def test_too_low_a_limit_is_one_message_before_anything_is_loaded(tmp_path, command, limits, words):
    """In place of a crash in a library, or a wait for a thread that could not be made."""
    process = Command([command, "run.toml"], tmp_path, limits)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, (out, err)
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


class Flood:
    """Strangers who connect as fast as they can, say nothing, and stay."""

    def __init__(self, port, most):
        self._port, self._most = port, most
        self._over = threading.Event()
        self.made = 0
        self._thread = threading.Thread(target=self._connect)
        self._thread.start()

    def _connect(self):
        held = []
        while not self._over.is_set():
            with suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", self._port), timeout=1))
                self.made += 1
            if len(held) > self._most:
                held.pop(0).close()
            self._over.wait(0.002)
        for one in held:
            one.close()

    def end(self):
        self._over.set()
        self._thread.join()


def kept_weights(folder):
    return {
        (path.name, name): value
        for path in sorted(folder.glob("*.safetensors"))
        for name, value in load_file(path).items()
    }


@pytest.mark.parametrize("transport", ["grpc", "tls", "plain"])
def test_strangers_at_the_port_do_not_end_a_run_or_change_it(pair, transport):  # noqa: F811
    """With 128 descriptors and up to 400 connections of strangers at once."""
    changes = {"epochs": "15", "checkpoint_every": "2", "wait": "60"}
    for party, name in (("label", "Top"), ("other", "bottom")):
        (pair.folder / party / "mine.py").write_text(MODULE)
        pair.own[party] |= {"model": f'"mine:{name}"'}
    if transport != "plain":
        make_identities(pair.folder / "identities")
        changes |= {"insecure_loopback": "false", "transport": f'"{transport}"'}
        pair.own["label"] |= {"identity": '"../identities/label-party"'}
        pair.own["other"] |= {"identity": '"../identities/non-label-party"'}
    pair.write_configurations(**changes)
    other = pair.start("other")
    label = Command(["label-party", "run.toml"], pair.folder / "label", {FILES: 128})
    label.wait_until_said("Connected by")
    flood = Flood(pair.port, 400)
    done = {}
    for party, process in (("label", label), ("other", other)):
        out, err = process.communicate(timeout=120)
        done[party] = process.returncode, out, err
    flood.end()
    assert_ended_well(done)
    assert flood.made > 128
    # The same run without strangers, by the same secrets, comes to the same weights.
    for party in ("label", "other"):
        reference = pair.folder / party / "reference"
        reference.mkdir()
        shutil.copy(pair.kept(party) / "run.key", reference)
    quiet = ("--folder", "reference")
    assert_ended_well(pair.run(label=quiet, other=quiet))
    for party in ("label", "other"):
        reached = kept_weights(pair.kept(party))
        expected = kept_weights(pair.folder / party / "reference")
        assert reached
        assert all(torch.equal(reached[name], expected[name]) for name in expected)
    findings = json.loads((pair.kept("label") / "findings.json").read_text())
    assert findings["messages_sent"] > 0
