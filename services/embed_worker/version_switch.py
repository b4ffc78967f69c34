"""How a version becomes the one that answers: write its points, then its head, then delete older points.

The rule is the pure function `advance`; `Embed.apply` executes it step by step (correctness.md, section 3). A crash may
follow any step, and any step may be repeated, also by a worker that missed a rebalance: readers always see one
complete version, and the newest version wins.
"""

from enum import Enum


class SwitchStep(Enum):
    """The steps of applying a version."""

    FENCE = "read the head"
    PUT = "write all points of the version"
    SWITCH = "write the head unless a newer one exists, and read it back"
    FORGET = "take older versions out of the truth"
    DELETE = "delete the points of older versions"
    FINISH = "write the status"
    WITHDRAW = "delete the points of this version: a newer one answers"
    REFUSED = "the version was withdrawn by another worker: delete its points"
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
    """Return the step after `step`, for a worker that applies `version`.

    `head` is the head's version (None: no head) as read by FENCE, or read back by SWITCH: only that shows a refused
    write, which raises no error. After other steps it is ignored.
    """
    if step in (SwitchStep.FENCE, SwitchStep.SWITCH) and head is not None and head > version:
        return SwitchStep.WITHDRAW
    if step is SwitchStep.SWITCH and head is not None and head < version:
        return SwitchStep.REFUSED
    return _AFTER[step]
