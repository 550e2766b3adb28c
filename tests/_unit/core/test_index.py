"""Where a target is, seen from the load driver."""

import socket

import pytest

from cluster_metrics.core.index import is_local


@pytest.mark.parametrize(
    "hosts, local",
    [
        (["127.0.0.1"], True),
        (["localhost", "127.0.0.2"], True),
        ([socket.gethostbyname(socket.gethostname())], True),
        (["127.0.0.1", "192.0.2.1"], False),
        (["no-such-host.invalid"], False),
    ],
)
def test_a_target_is_local_if_all_its_hosts_are(hosts, local):
    assert is_local(hosts) is local
