"""The samples of CPU time of a race, joined to the coverages or cells in whose time they were taken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from . import stacks
from .cells import Cells, cells_of
from .components import COMPILER, GC, Components
from .race import Race
from .stacks import Counts, Differences, Frames, Profile, Stack
from .stats import Samples

LEAST_PATH = 0.001
"""Share of the CPU time of some configuration that a path must have to be kept in flame graphs."""


@dataclass(frozen=True)
class Profiling:
    """What a challenge samples, and how it is told.

    :param round: operation type of the samples that name the recordings.
    :param sampled: of those that were taken while the sampler recorded.
    :param plain: of the same without.
    :param design: in words: what stands beside what in a round.
    :param components: which part of Elasticsearch a stack belongs to.
    :param what: what is sampled, such as ``coverage``.
    :param per: what CPU time is told by.
    :param shown: configurations in the table of components; the first is the one that is asked about.
    :param other: whose methods the first is held against.
    :param spares: what the finding is called that says which methods of the first the other spares.
    :param pairs: the differences that stand in the report; those of any two are on the page of flame graphs.
    :param weight: by the metadata of a sample: how many of ``per`` it is (default 1).
    """

    round: str
    sampled: str
    plain: str
    design: str
    components: Components
    what: str
    per: str
    shown: tuple[str, ...]
    other: str
    spares: str
    pairs: tuple[tuple[str, str], ...]
    weight: Callable[[Mapping[str, Any]], float] = lambda meta: 1.0


@dataclass(frozen=True)
class Sampled:
    """Stacks by configuration and round.

    :param how: what was sampled.
    :param folder: that the samples are in.
    :param cells: what was sampled; all samples of a configuration have one weight.
    :param rounds: that all configurations have.
    """

    how: Profiling
    folder: Path
    profile: Profile
    cells: Cells
    names: Sequence[str]
    rounds: Sequence[int]

    def weight(self, name: str) -> float:
        """How many coverages, or what else CPU time is told by, a sample of a configuration is."""
        return self.how.weight(self.cells.samples(name)[self.rounds[0]].meta)

    def period_ms(self, name: str) -> float:
        """CPU time that a stack met once in a configuration stands for, by coverage."""
        return self.profile.period_ms / self.weight(name)

    @property
    def base(self) -> str:
        """The configuration that is asked about; the first of all where the race lacks it."""
        return self.how.shown[0] if self.how.shown[0] in self.names else self.names[0]

    @property
    def other(self) -> str:
        """That it is held against; empty where the race lacks one of them."""
        return self.how.other if {self.how.shown[0], self.how.other} <= set(self.names) else ""

    @cached_property
    def counted(self) -> Mapping[str, sparse.csr_array]:
        """By configuration: how often each stack was met, by round and stack."""
        found = {}
        for name in self.names:
            of = self.cells.samples(name)
            metas = [of[number].meta for number in self.rounds]
            starts = [(m["started_s"], m.get("window_ms", m["wall_ms"])) for m in metas]
            found[name] = self.profile.counted([(int(1e9 * s), int(1e9 * s + 1e6 * ms)) for s, ms in starts])
        return found

    def times(self, frames: Frames) -> dict[str, Counts]:
        """By configuration: CPU time by round and frame, in ms."""
        return {name: frames.times(counted, self.period_ms(name)) for name, counted in self.counted.items()}

    @cached_property
    def whole(self) -> Mapping[str, Samples]:
        """By configuration: CPU time of all samples by round, in ms."""
        return {
            name: np.asarray(counted.sum(axis=1)).ravel() * self.period_ms(name)
            for name, counted in self.counted.items()
        }

    @cached_property
    def by_component(self) -> Mapping[str, Counts]:
        """By configuration: CPU time by round and component, these in their order."""
        found = stacks.frames(self.profile, lambda stack: [(self.how.components.of(stack),)])
        names = self.how.components.names
        columns = [found.names.index((name,)) if (name,) in found.names else None for name in names]
        times = self.times(found)
        empty = np.zeros(len(self.rounds))
        return {
            name: np.array([empty if c is None else by_round[:, c] for c in columns]).T
            for name, by_round in times.items()
        }

    @cached_property
    def methods(self) -> tuple[Frames, Mapping[str, Counts]]:
        """The methods that ran, without those of compiler and garbage collector, and less those that ran below
        :data:`LEAST_PATH` everywhere."""
        return self._kept(lambda stack: () if self.how.components.of(stack) in (COMPILER, GC) else stacks.leaf(stack))

    @cached_property
    def paths(self) -> tuple[Frames, Mapping[str, Counts]]:
        """The paths of flame graphs."""
        return self._kept(stacks.paths)

    def _kept(self, of: Callable[[Stack], Iterable[Stack]]) -> tuple[Frames, Mapping[str, Counts]]:
        found = stacks.frames(self.profile, of)
        kept = stacks.kept(found, self.times(found), LEAST_PATH, {n: float(w.mean()) for n, w in self.whole.items()})
        return kept, self.times(kept)

    def share(self, name: str, of: str) -> Samples:
        """The share of a component in the CPU time of a configuration, by round."""
        column = self.how.components.names.index(of)
        return self.by_component[name][:, column] / np.maximum(self.whole[name], self.period_ms(name))

    def differences(self, times: Mapping[str, Counts], base: str, other: str) -> Differences:
        """Frame by frame, see :func:`_tools.report.stacks.differences`."""
        whole = max(float(self.whole[name].mean()) for name in (base, other))
        return stacks.differences(times[base], times[other], whole)

    def cpu_ms(self, name: str) -> Samples:
        """CPU time of the target's processes in what was sampled, by round; nan where it is not known."""
        of = self.cells.samples(name)
        found = np.array([float(of[number].meta.get("target_cpu_ms", np.nan)) for number in self.rounds])
        return np.asarray(found / self.weight(name))

    def over_time(self, seconds: float) -> list[dict[str, Any]]:
        """CPU time of compiler and garbage collector as shares of all samples, warm-up included: a row for each and
        stretch of so many seconds that has samples, as :func:`_tools.report.timelines.drawn` takes them."""
        stretch = ((self.profile.at - self.profile.at[0]) / (1e9 * seconds)).astype(int)
        of = np.array([self.how.components.of(stack) for stack in self.profile.stacks])[self.profile.of]
        found, counts = np.unique(stretch, return_counts=True)
        return [
            {"series": name, "run": 0, "at": float(at * seconds), "value": float(np.sum(of[stretch == at] == name) / n)}
            | {"where": f"{at * seconds:.0f} to {(at + 1) * seconds:.0f} s"}
            for name in (COMPILER, GC)
            for at, n in zip(found, counts)
        ]

    def compiling(self) -> dict[str, float]:
        """The share of the compiler in the CPU time of each configuration, a mean over rounds."""
        return {name: float(np.mean(self.share(name, COMPILER))) for name in self.names}

    def collecting(self) -> dict[str, float]:
        """The same of the garbage collector."""
        return {name: float(np.mean(self.share(name, GC))) for name in self.names}


@lru_cache(maxsize=2)
def _read(folder: Path) -> Profile:
    return stacks.read_stacks(folder)


def sampled(race: Race, how: Profiling) -> Sampled | None:
    """The samples of a race; None where there are none on this machine."""
    folders = folders_of(race, how)
    cells = cells_of(race, how.sampled)
    if len(folders) != 1 or not cells.names or not cells.has(*cells.names):
        return None
    try:
        profile = _read(folders[0])
    except (OSError, EOFError):
        return None
    lost = {sample.meta["round"] for sample in race.of(how.round) if sample.meta.get("not_sampled")}
    rounds = [number for number in cells.rounds(*cells.names) if number not in lost]
    if not len(profile.at) or not rounds:
        return None
    return Sampled(how, folders[0], profile, cells, sorted(cells.names), rounds)


def folders_of(race: Race, how: Profiling) -> list[Path]:
    """Where the recordings of a race are, by its samples."""
    found = (Path(file).parent for sample in race.of(how.round) for file in sample.meta.get("recordings", []))
    return list(dict.fromkeys(found))


def missing(race: Race, how: Profiling) -> list[str]:
    """Why there is no profile of the race, or of a part of it; a sentence each, without its full stop."""
    rounds: dict[str, list[int]] = {}
    for sample in race.of(how.round):
        if why := sample.meta.get("not_sampled"):
            rounds.setdefault(why, []).append(sample.meta["round"])
    found = [
        f"no CPU profile of {len(numbers)} rounds, from round {min(numbers)} on: {why}"
        for why, numbers in rounds.items()
    ]
    folders = folders_of(race, how)
    if folders and not any((folder / stacks.FILE).exists() for folder in folders):
        found.append(
            f"no CPU profile: [{folders[0]}] of this machine has no samples; it raced elsewhere, or make was ended "
            "before it read them"
        )
    both = sampled(race, how)
    return found + [problem.rstrip(".") for problem in (both.profile.problems if both else ())]
