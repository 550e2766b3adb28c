"""Which part of Elasticsearch a stack belongs to, by a table of packages and classes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from .stacks import Stack

GC, COMPILER, IDLE, UNNAMED = "garbage collector", "compiler", "idle", "unnamed"
Patterns = Sequence[tuple[str, str]]
"""Components, each with a regular expression of the beginning of frames, or of threads."""
SHARED: Patterns = (
    (
        "request and response",
        r"org\.elasticsearch\.(xcontent|common\.xcontent|common\.io\.stream|common\.bytes|rest\.action)\."
        r"|com\.fasterxml\.jackson\.",
    ),
    ("HTTP", r"io\.netty\.|org\.elasticsearch\.(http|rest|transport|client)\.|sun\.nio\.ch\.|java\.nio\.channels\."),
    (
        "threads and tasks",
        r"java\.util\.concurrent\.(?!Concurrent)|org\.elasticsearch\.(common\.util\.concurrent|threadpool|tasks|action)\.",
    ),
    (GC, r"thread (G1|GC|VM Thread|VM Periodic|Concurrent)\b"),
    (COMPILER, r"thread (C[12] Compiler|Sweeper)"),
    (
        IDLE,
        r"(libc\.so\.6\.)?(epoll_wait|pthread_cond_\w*wait|__futex_abstimed_wait)|jdk\.internal\.misc\.Unsafe\.park",
    ),
)
"""What any request has, and the threads of the runtime."""
REST: Patterns = (
    ("rest of Elasticsearch", r"org\.(elasticsearch|apache)\."),
    (
        "rest of the virtual machine",
        r"thread (Signal|Service|Monitor|Reference|Finalizer|Common-Cleaner|Attach|Notification|process reaper)",
    ),
)
"""The same of stacks that fit nothing else."""


@dataclass(frozen=True)
class Components:
    """The components of what is sampled.

    A stack is of the first of ``around`` that one of its frames fits. Else it is of the first of its frames that fits
    one of ``parts``, :data:`SHARED` and then :data:`REST`, from the innermost outwards, the thread last: what the
    runtime or a codec does counts with who asked for it.

    :param parts: components of what was asked for.
    :param around: those that have all that is done within them.
    """

    parts: tuple[tuple[str, str], ...]
    around: tuple[tuple[str, str], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All of them, in order."""
        return (*dict.fromkeys(name for name, _ in (*self.around, *self.parts, *SHARED, *REST)), UNNAMED)

    def of(self, stack: Stack) -> str:
        """The component of a stack."""
        for name, pattern in self.around:
            if any(re.match(pattern, frame) for frame in stack):
                return name
        for patterns in ((*self.parts, *SHARED), REST):
            if found := next(filter(None, (_fit(patterns, frame) for frame in reversed(stack))), ""):
                return found
        return UNNAMED


@cache
def _fit(patterns: Patterns, frame: str) -> str:
    return next((name for name, pattern in patterns if re.match(pattern, frame)), "")
