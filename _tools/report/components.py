"""Which part of Elasticsearch a stack belongs to: a table of packages and classes."""

import re
from collections.abc import Sequence
from functools import cache

from .stacks import Stack

GC, COMPILER, IDLE, UNNAMED = "garbage collector", "compiler", "idle", "unnamed"
COMPONENTS: Sequence[tuple[str, str]] = (
    ("t-digest", r"org\.elasticsearch\.(tdigest\.|\S*TDigest)"),
    ("HDR", r"org\.HdrHistogram\.|org\.elasticsearch\.\S*HDR"),
    ("sums", r"org\.elasticsearch\.\S*(SumAggregator|CompensatedSum|InternalSum|\.Sum\b)"),
    (
        "reading doc values",
        r"org\.apache\.lucene\.(codecs\.\S*DocValues|util\.packed\.|(index|search)\.\S*DocValues(?!\w*(Query|Rewrite)))"
        r"|org\.elasticsearch\.(index\.fielddata\.|search\.aggregations\.support\.ValuesSource)",
    ),
    (
        "filtering",
        r"org\.apache\.lucene\.(search|queries|codecs|index|util\.bkd|util\.automaton|util\.\w*BitSet|util\.DocIdSet)"
        r"|org\.elasticsearch\.(index\.query\.|search\.internal\.(ContextIndexSearcher|CancellableBulkScorer))",
    ),
    ("fetch and reduce", r"org\.elasticsearch\.(search\.fetch\.|action\.search\.|\S*SearchPhase(Controller|Result))"),
    (
        "aggregation framework",
        r"org\.elasticsearch\.(search\.aggregations\.|common\.util\.BigArrays|\S*BucketCollector)",
    ),
    ("query phase", r"org\.elasticsearch\.(search|index|indices|cluster|node)\."),
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
"""Components, each with a regular expression of frames and threads. A stack is of the first of its frames that fits
one, from the innermost outwards, the thread last: what the runtime or a codec does counts with who asked for it."""
REST: Sequence[tuple[str, str]] = (
    ("rest of Elasticsearch", r"org\.(elasticsearch|apache)\."),
    (
        "rest of the virtual machine",
        r"thread (Signal|Service|Monitor|Reference|Finalizer|Common-Cleaner|Attach|Notification|process reaper)",
    ),
)
"""The same of stacks that fit none of these."""
NAMES = (*(name for name, _ in (*COMPONENTS, *REST)), UNNAMED)


@cache
def _of_frame(frame: str, rest: bool) -> str:
    return next((name for name, pattern in (REST if rest else COMPONENTS) if re.match(pattern, frame)), "")


def component(stack: Stack) -> str:
    """The component of a stack."""
    tried = ((frame, rest) for rest in (False, True) for frame in reversed(stack))
    return next((name for frame, rest in tried if (name := _of_frame(frame, rest))), UNNAMED)
