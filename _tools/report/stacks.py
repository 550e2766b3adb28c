"""Samples of stacks, joined to what was asked while they were taken, and compared frame by frame.

A sample stands for a period of CPU time of its thread, so the samples within a window of time add up to the CPU time
that was used there. The unit of replication is the round.
"""

import gzip
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from .stats import LEVEL, Samples
from .verdicts import benjamini_hochberg

FILE = "stacks.txt.gz"
LEAST_SHARE = 0.005
"""Of a coverage's CPU time that a frame must have on one side to be compared."""
GAP_MS = 0.1
"""To which gaps between samples are rounded."""
POOL = re.compile(r"elasticsearch\[[^]]*\]\[([^]]*)\].*")
NUMBERS = re.compile(r"[ #-]*\d+$")
HIDDEN = re.compile(r"(\$\$Lambda|LambdaForm\$\w+|GeneratedMethodAccessor)(?:[.$/+]?(?:0x[0-9a-f]+|\d+))+")
Stack = tuple[str, ...]
"""The thread, then its frames, the outermost first."""
Counts = npt.NDArray[np.float64]


def write_stacks(folder: Path, text: str) -> None:
    """Keeps what ``Samples.java`` prints, whole or not at all."""
    part = folder / f"{FILE}.part"
    with gzip.open(part, "wt") as f:
        f.write(text)
    part.replace(folder / FILE)


@dataclass(frozen=True)
class Profile:
    """Samples in order of time.

    :param stacks: that there are.
    :param at: when each sample was taken, in ns since the epoch.
    :param of: which stack each has, by number.
    :param period_ms: CPU time that a sample stands for.
    :param problems: recordings that could not be read to their end, a sentence each.
    """

    stacks: Sequence[Stack]
    at: npt.NDArray[np.int64]
    of: npt.NDArray[np.int64]
    period_ms: float
    problems: Sequence[str] = ()

    def counted(self, windows: Sequence[tuple[int, int]]) -> sparse.csr_array:
        """How often each stack was met in each window: a row per window, a column per stack.

        :param windows: start and end in ns since the epoch.
        """
        bounds = np.searchsorted(self.at, np.array(windows, dtype=np.int64).reshape(-1, 2))
        rows = np.concatenate([[], *(np.full(max(0, end - start), i) for i, (start, end) in enumerate(bounds))])
        columns = np.concatenate([[], *(self.of[start:end] for start, end in bounds)])
        shape = (len(windows), len(self.stacks))
        return sparse.csr_array((np.ones(len(rows)), (rows.astype(int), columns.astype(int))), shape=shape)


def read_stacks(folder: Path) -> Profile:
    """Reads what :func:`write_stacks` kept.

    :raises OSError: when it is not there.
    """
    numbers: dict[Stack, int] = {}
    known: dict[int, tuple[int, str]] = {}
    found: list[tuple[int, int]] = []
    last: dict[str, int] = {}
    gaps: list[int] = []
    problems = []
    with gzip.open(folder / FILE, "rt") as f:
        for line in f:
            kind, rest = line[0], line[2:].rstrip("\n")
            if kind == "S":
                number, text = rest.split(" ", 1)
                thread = text.partition(";")[0]
                known[int(number)] = numbers.setdefault(_plain(text), len(numbers)), thread
            elif kind == "E":
                when, place = map(int, rest.split())
                stack, thread = known[place]
                gaps.append(when - last.get(thread, 0))
                last[thread] = when
                found.append((when, stack))
            else:
                problems.append(f"The recording {rest}.")
    found.sort()
    at, of = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return Profile(list(numbers), at, of, _period(gaps), problems)


def _plain(text: str) -> Stack:
    """A stack less what differs from thread to thread and from run to run."""
    thread, *frames = text.split(";")
    pool = POOL.fullmatch(thread)
    name = pool.group(1) if pool else NUMBERS.sub("", thread)
    return (f"thread {name}", *(HIDDEN.sub(r"\1", frame) for frame in frames))


def _period(gaps: Sequence[int]) -> float:
    """The most frequent gap between samples of one thread, in ms: that of threads which run without a pause."""
    rounded = np.round(np.array(gaps) / (GAP_MS * 1e6)).astype(int)
    found, counts = np.unique(rounded[rounded > 0], return_counts=True)
    return float(found[np.argmax(counts)] * GAP_MS) if len(found) else 0.0


@dataclass(frozen=True)
class Frames:
    """Frames by name or by path, and the stacks that have them.

    :param names: in order of columns.
    :param having: a row per stack, a column per frame; 1 where the stack has it.
    """

    names: Sequence[Stack]
    having: sparse.csr_array

    def times(self, counted: sparse.csr_array, period_ms: float) -> Counts:
        """CPU time by window and frame, in ms."""
        return np.asarray((counted @ self.having).todense()) * period_ms


def frames(profile: Profile, of: Callable[[Stack], Iterable[Stack]]) -> Frames:
    """The frames that a function finds in the stacks.

    :param of: the frames of a stack, each once; a frame by itself is a path of one.
    """
    numbers: dict[Stack, int] = {}
    rows, columns = [], []
    for row, stack in enumerate(profile.stacks):
        for found in dict.fromkeys(of(stack)):
            rows.append(row)
            columns.append(numbers.setdefault(found, len(numbers)))
    shape = (len(profile.stacks), len(numbers))
    return Frames(list(numbers), sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape))


def paths(stack: Stack) -> Iterable[Stack]:
    """Each frame with all that it is in, for a flame graph."""
    return (stack[:depth] for depth in range(1, len(stack) + 1))


def leaf(stack: Stack) -> Iterable[Stack]:
    """The method that ran."""
    return (stack[-1:],)


def methods(stack: Stack) -> Iterable[Stack]:
    """The methods that ran or had called what ran."""
    return ((frame,) for frame in stack[1:])


def kept(frames_: Frames, times: Mapping[str, Counts], least: float, whole: Mapping[str, float]) -> Frames:
    """The frames that have a share of the CPU time of some configuration.

    :param times: by configuration: CPU time by round and frame.
    :param least: the share.
    :param whole: by configuration: CPU time of a coverage.
    """
    wanted = np.zeros(len(frames_.names), dtype=bool)
    for name, found in times.items():
        wanted |= found.mean(axis=0) >= max(least * whole[name], np.finfo(float).tiny)
    columns = np.flatnonzero(wanted)
    return Frames([frames_.names[i] for i in columns], frames_.having[:, columns])


@dataclass(frozen=True)
class Differences:
    """What differs between two configurations, frame by frame: arrays in the order of the frames.

    :param base: mean CPU time per coverage, in ms.
    :param other: the same of the other side.
    :param half: half of the 95 % interval of their difference.
    :param p: that it is none, two-sided; 1 for what was not compared.
    :param shown: whether the frame differs, of all that were compared (Benjamini and Hochberg).
    :param compared: whether it was.
    :param n: rounds.
    """

    base: Samples
    other: Samples
    half: Samples
    p: Samples
    shown: npt.NDArray[np.bool_]
    compared: npt.NDArray[np.bool_]
    n: int

    @property
    def value(self) -> Samples:
        return np.asarray(self.other - self.base)


def differences(base: Counts, other: Counts, whole: float) -> Differences:
    """Holds the frames of two configurations against each other, within rounds: the mean of the differences with
    Student's interval, as counts of few samples have no median worth the name.

    :param base: CPU time by round and frame, in ms.
    :param other: the same frames in the same rounds, or others in pairs.
    :param whole: CPU time of a coverage of the greater side, in ms; frames below :data:`LEAST_SHARE` of it on both
        sides are not compared.
    """
    n = len(base)
    off = other - base
    mean, error = off.mean(axis=0), stats.sem(off, axis=0) if n > 1 else np.full(off.shape[1], np.nan)
    compared = np.maximum(base.mean(axis=0), other.mean(axis=0)) >= LEAST_SHARE * whole
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(mean) / error, n - 1)
    p = np.where(compared & np.isfinite(p), p, 1.0)
    shown = np.zeros(len(p), dtype=bool)
    shown[compared] = benjamini_hochberg(p[compared])
    half = stats.t.ppf(1 - LEVEL / 2, max(1, n - 1)) * error
    return Differences(base.mean(axis=0), other.mean(axis=0), half, p, shown, compared, n)
