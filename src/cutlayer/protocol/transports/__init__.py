"""Transports: how messages get to the other party, behind the seam of ``protocol.transport``.

==================  ==============================================================================
in_memory           two threads of one process
grpc_*              HTTP/2 over mutual TLS, on the event loop of a thread of its own
stream*             TLS 1.3, or plain text on loopback, over one socket
outbox              any of them, with a thread that sends in the background
connection_slot, acceptor  the listening side: who may come in, and who takes the one place
==================  ==============================================================================
"""

import os

# gRPC would write every stranger's failed handshake to standard error. It looks when it is
# imported, which is after this package.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
