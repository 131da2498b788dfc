"""cutlayer: two-party split learning that measures and limits label leakage."""
