"""The nodes' shares of the CPU, which are lifted while a race loads its words."""

from typing import Any

from ..elasticsearch import cpu
from ..elasticsearch.nodes import Cluster


class Shares:
    """Of an embedded cluster, free until a runner, or the end of the race, asks for anything.

    :param cores: what each of its data nodes is held to.
    """

    def __init__(self, cluster: Cluster, cores: float):
        self._groups, self._cores = cluster.groups, cores

    def lift(self) -> None:
        """Leaves the nodes free."""
        for group in self._groups:
            cpu.make_group(group, 0)

    def answer(self, asked: str) -> dict[str, Any]:
        """Holds the nodes to their shares, whatever is asked."""
        for group in self._groups:
            cpu.make_group(group, self._cores)
        return {}
