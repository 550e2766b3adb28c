"""What a configuration changes: plain data that rooms derive from their configurations, and rankings are made of."""

from dataclasses import dataclass

KINDS = ("client", "query", "index", "format", "settings", "shape of the cluster")
"""What a user can change: how requests are sent, what is asked, how documents are laid out, the format on the wire,
settings of the index or the target, shards and replicas."""
PARTS = ("ingest", "query")
"""Parts of the workload."""


@dataclass(frozen=True)
class Change:
    """A change to the workload as a user would make it.

    :param text: what is changed, in words.
    :param kinds: of :data:`KINDS`, in their order; several for a combination.
    :param part: of :data:`PARTS`, which it is for.
    :param price: what one pays for it beside what is measured, in words.
    """

    text: str
    kinds: tuple[str, ...]
    part: str
    price: str = "none"

    @property
    def combined(self) -> bool:
        return len(self.kinds) > 1
