"""The first configuration of a party, as ``cutlayer init`` writes it."""

from cutlayer.protocol.messages import Role

_SHARED = """\
run = "first-run"                            # equal at both parties, like all keys with (=)
file = "{file}"                              # CSV (also gzip) or Parquet
id = "id"                                    # the column that both files have
{label}protection = "residual:max_leak_auc=0.7"     # (=) planned for all epochs below
address = "127.0.0.1:7700"                   # where the label party listens
identity = "{identity}"                        # own key and certificate, and the peer's
epochs = 20                                  # (=)
batch_size = 512                             # (=)
cut_width = 32                               # (=) numbers of a record that cross
seed = 0                                     # (=) of the split
"""
_LABEL = """\
label = "label"                              # the column with the outcome
positive = "1"                               # its value that is positive
# record = "1 GiB"                           # keeps the messages for `cutlayer audit`
"""


def template(role: Role, file: str, identity: str = "identity") -> str:
    """A configuration of about 15 lines that trains with a rigorous protection."""
    return _SHARED.format(file=file, label=_LABEL if role is Role.LABEL else "", identity=identity)
