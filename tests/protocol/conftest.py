"""Fixtures: identities of two parties that trust each other, and every network between them."""

import pytest

from cutlayer.protocol import Role
from tests.protocol.networks import Network, make_identities


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    return make_identities(tmp_path_factory.mktemp("identities"))


@pytest.fixture(scope="session")
def networks(identities):
    label, other = identities[Role.LABEL], identities[Role.NON_LABEL]
    return {
        "grpc": Network("grpc", label, other),
        "tls": Network("tls", label, other),
        "plain": Network("plain", None, None),
    }


@pytest.fixture(params=["grpc", "tls", "plain"])
def network(request, networks):
    return networks[request.param]


@pytest.fixture(params=["grpc", "tls"])
def secured(request, networks):
    return networks[request.param]
