"""A race that fits a time: what MINUTES makes of the track parameters, and what may be expected of it."""

import math
from typing import Any

from cluster_metrics.core.challenge import challenges
from cluster_metrics.core.parameters import RACE_MINUTES

from .rally import params_of, resolved
from .variables import RaceError, variable


def given() -> int:
    """The minutes that a race may take; 0 for any."""
    return int(variable("MINUTES", "0"))


def fitted(challenge: str, params: str) -> dict[str, Any]:
    """Track parameters by which a race fits MINUTES: the plan walks as many whole rounds as there is time for. What
    else is repeated and carries no verdict (``passes``) is done once where there is less time than the challenge takes.

    :param params: the track parameters that the user gave.
    :raises RaceError: when the challenge cannot keep to a time.
    """
    minutes, record = given(), challenges()[challenge]
    if not minutes:
        return {}
    names, parameter = {parameter.name for parameter in record.parameters}, record.compared.parameter
    if RACE_MINUTES.name not in names:
        raise RaceError(
            f"MINUTES is [{minutes}], to which {challenge} cannot keep, since its {parameter} are laid out before it "
            f"starts; it takes about {record.minutes} minutes, {parameter} in PARAMS make it shorter or longer"
        )
    once = "passes" in names and "passes" not in params_of(params) and minutes < record.minutes
    return {RACE_MINUTES.name: minutes} | ({"passes": 1} if once else {})


def expected(challenge: str, params: str) -> str:
    """What may be expected of a race in MINUTES, in one line: from what the challenge takes with its defaults, set-up
    included, so it is rough; the race itself goes by the time that its rounds take.

    :param params: as of :func:`fitted`.
    """
    record, minutes = challenges()[challenge], given()
    compared, enough = record.compared, record.compared.enough
    asked, round_s = (
        resolved(params, challenge)[compared.parameter],
        60 * record.minutes / resolved("", challenge)[compared.parameter],
    )
    rounds = min(asked, int(60 * minutes / round_s))
    once = " with passes:1" if "passes" in fitted(challenge, params) else ""
    text = (
        f"MINUTES={minutes}: {challenge} takes about {record.minutes} minutes on two cores with its defaults, "
        f"{round_s:.0f} s for each {compared.unit} with its share of the set-up, so about {rounds} of {asked} fit{once}"
    )
    if rounds >= enough:
        return f"{text}; a verdict takes {enough}"
    needed = f"MINUTES={math.ceil(enough * round_s / 60)}" if asked >= enough else f"{compared.parameter}:{enough}"
    return f"{text}; this cannot carry a verdict, which takes {enough}: race with {needed} or more"
