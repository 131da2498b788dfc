"""What a peer's software says of itself reaches the operator as text that no terminal obeys."""

import grpc
from grpc import aio

from cutlayer.protocol import Role
from cutlayer.protocol.transports.event_loop import EventLoop
from tests.protocol.networks import make_identities
from tests.runs.command import Command

WORDS = "\x1b[2J\x1b]0;owned\x07\u202egpj\x9b1m\x7f\nlabel party: the run has ended well"


class Refuser:
    """A label party with the right certificate, whose software says what it likes."""

    def __init__(self, identity):
        self._loop = EventLoop.shared()
        self.port = self._loop.run(self._start(identity), 10)

    async def _start(self, identity):
        async def exchange(_, context):
            await context.abort(grpc.StatusCode.UNAVAILABLE, WORDS)

        self._server = aio.server()
        handler = grpc.stream_stream_rpc_method_handler(exchange)
        named = grpc.method_handlers_generic_handler("cutlayer.Session", {"Exchange": handler})
        self._server.add_generic_rpc_handlers((named,))
        pair = [(identity.key_pem, identity.certificate_pem)]
        credentials = grpc.ssl_server_credentials(pair, identity.peer_pem, require_client_auth=True)
        port = self._server.add_secure_port("127.0.0.1:0", credentials)
        await self._server.start()
        return port

    def close(self):
        self._loop.run(self._server.stop(0), 10)


def test_a_status_with_escape_sequences_is_shown_as_text(tmp_path):
    identities = make_identities(tmp_path)
    (tmp_path / "table.csv").write_text("id,x\n1,0.5\n2,1.5\n3,2.5\n4,0.1\n")
    refuser = Refuser(identities[Role.LABEL])
    (tmp_path / "other.toml").write_text(
        f'run = "r"\nfile = "table.csv"\nid = "id"\nprotection = "no_noise"\nwait = 2\n'
        f'address = "127.0.0.1:{refuser.port}"\nidentity = "non-label-party"\n'
        'log = "run.jsonl"\nlog_level = "debug"\n'
    )
    try:
        command = Command(["non-label-party", "other.toml"], tmp_path)
        out, err = command.communicate(timeout=120)
    finally:
        refuser.close()
    assert command.returncode == 1
    # The words are told, in the one line of the error.
    assert r"\x1b[2J\x1b]0;owned\x07\u202egpj\x9b1m\x7f\nlabel party: the run has ended" in err
    assert len(err.splitlines()) == 1
    for said in (out, err, (tmp_path / "run.jsonl").read_text()):
        assert not set("\x1b\x07\u202e\x9b\x7f") & set(said)


def test_an_address_with_escape_sequences_is_shown_as_text(tmp_path):
    (tmp_path / "label.toml").write_text(
        'run = "r"\nfile = "table.csv"\nid = "id"\nlabel = "y"\nprotection = "no_noise"\n'
        'address = "h\\u001b[2J\\u0007\\u202e:1"\n'
    )
    for command in ("label-party", "doctor", "predict", "align"):
        done = Command([command, "label.toml"], tmp_path)
        out, err = done.communicate(timeout=60)
        assert done.returncode == 2
        assert "h\\x1b[2J\\x07\\u202e:1" in out.replace("\n", "") + err, command
        assert not set("\x1b\x07\u202e") & set(out + err)
