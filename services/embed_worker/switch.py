"""How one version becomes the one that answers: all its points, then its head, then older points go.

correctness.md, section 3. `advance` is the whole rule, a pure function; `apply` does what it says, one step at a
time. Any step may be the last before a crash, may be done twice, or by a worker that slept through a
rebalance: a reader sees one whole version at every moment, and the newest one stays.
"""

from enum import Enum


class SwitchStep(Enum):
    """Where applying a version stands."""

    FENCE = "read the head"
    PUT = "write all points of the version"
    SWITCH = "offer the head, and read back which one stands"
    FORGET = "take older versions out of the truth"
    DELETE = "delete the points of older versions"
    FINISH = "write the status"
    WITHDRAW = "delete the points of this version: a newer one stands"
    REFUSED = "the version was withdrawn by another worker: take back what was written of it"
    END = "nothing more to do"


_AFTER = {
    SwitchStep.FENCE: SwitchStep.PUT,
    SwitchStep.PUT: SwitchStep.SWITCH,
    SwitchStep.SWITCH: SwitchStep.FORGET,
    SwitchStep.FORGET: SwitchStep.DELETE,
    SwitchStep.DELETE: SwitchStep.FINISH,
    SwitchStep.FINISH: SwitchStep.END,
    SwitchStep.WITHDRAW: SwitchStep.END,
    SwitchStep.REFUSED: SwitchStep.END,
}


def advance(step: SwitchStep, version: int, head: int | None) -> SwitchStep:
    """Return what to do after `step`, for a worker that holds `version`.

    `head` is the version of the head (None: none) as FENCE read it, or as SWITCH read it back: a refused
    write gives no error and shows only there. Elsewhere it isn't looked at.
    """
    if step in (SwitchStep.FENCE, SwitchStep.SWITCH) and head is not None and head > version:
        return SwitchStep.WITHDRAW
    if step is SwitchStep.SWITCH and head is not None and head < version:
        return SwitchStep.REFUSED
    return _AFTER[step]
