"""The sampler of make's process as a runner sees it: what it is told, and what becomes of its answers."""

import asyncio
import os
import socket
import threading

import pytest
from fakes import Sampling

from _tools.profile.control import Control
from _tools.race.served import served
from cluster_metrics.core.sampler import Sampler

NOBODY = 1 << 22
"""The id of no process: more than Linux gives."""


class Noting(Control):
    """Notes what it is asked."""

    def __init__(self, sampler):
        super().__init__(sampler)
        self.asked = []

    def answer(self, asked):
        self.asked.append(asked)
        return super().answer(asked)


@pytest.fixture(scope="module")
def served_once():
    """A control and its address: to end a server takes half a second."""
    control = Noting(Sampling())
    with served(control) as address:
        yield control, address


@pytest.fixture
def control(served_once):
    control, address = served_once
    control.sampler, control.problem, control.asked = Sampling(), "", []
    control.address = address
    return control


async def recorded(sampler, times=1, error=None):
    """Whether it recorded, of each time."""
    found = []
    for _ in range(times):
        async with sampler.recording() as ready:
            found.append(ready)
            if error:
                raise error
    return found


def test_the_recordings_of_a_round_are_those_of_all_its_starts(control):
    sampler = Sampler(control.address)
    assert asyncio.run(recorded(sampler, times=2)) == [True, True]
    assert sampler.of_round == {"recordings": ["/kept/1.jfr", "/kept/2.jfr"]}
    assert sampler.pids == [os.getpid()]


def test_a_recording_is_stopped_whatever_happens_in_it(control):
    with pytest.raises(ValueError):
        asyncio.run(recorded(Sampler(control.address), error=ValueError()))
    assert control.asked == ["start", "stop"]


def test_a_sampler_that_failed_is_told_no_more_and_the_round_keeps_what_it_recorded_before(control):
    control.sampler, sampler = Sampling(fails_at=2), Sampler(control.address)
    assert asyncio.run(recorded(sampler, times=3)) == [True, False, False]
    assert control.asked == ["start", "stop", "start"]
    why = "node target-1, process 7, has ended or was started anew"
    assert sampler.of_round == {"recordings": ["/kept/1.jfr"], "not_sampled": why}


@pytest.mark.parametrize(
    "answer, error",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "JSONDecodeError"),
        (b"SSH-2.0-x\r\n", "BadStatusLine"),
        (b"", "RemoteDisconnected"),
    ],
)
def test_what_is_no_sampler_is_a_problem_and_no_end_of_the_race(answer, error):
    def answering(server):
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answering, args=[server], daemon=True).start()
        sampler = Sampler(f"127.0.0.1:{server.getsockname()[1]}")
        assert asyncio.run(recorded(sampler)) == [False]
    assert sampler.of_round == {"not_sampled": f"the sampler at {sampler.address} does not answer: {error}"}


def test_the_cpu_time_of_nodes_that_are_elsewhere_or_gone_is_not_known():
    assert Sampler("none").cpu_ms() is None
    assert Sampler("none", pids=[os.getpid(), NOBODY]).cpu_ms() is None
    one, two = (Sampler("none", pids=[os.getpid()] * nodes).cpu_ms() for nodes in (1, 2))
    assert 0 < 2 * one <= two
