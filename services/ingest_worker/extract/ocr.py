"""Text recognition (OCR) with rapidocr, the `ocr` extra. Its package contains models for English and Chinese."""

import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

from shared.version import how_to_add

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSTALL = f"readable with the ocr extra: {how_to_add('ocr')}"
_SIDE = 1280  # pixels
_CLEAR = 20  # pixels: a line this tall is recognised as well at three quarters of its height
_LONG = 10  # times its height: for a shorter line, shrinking saves nothing
_STRIP = 100  # times as long as wide: no line of text; above 117 the engine fails on an image that it shrinks to 2,000
_MARGIN = 0.175  # of a line's height, above and below
PIXELS = 40_000_000  # A4 at 600 dpi is 35 million


def installed() -> bool:
    """Return whether the ocr extra is installed."""
    return importlib.util.find_spec("rapidocr") is not None


def text_of(image: "NDArray[Any]") -> str:
    """Return the text in the image (height × width × RGB), line by line; none in a strip."""
    if max(image.shape[:2]) > _STRIP * min(image.shape[:2]):
        return ""
    result = _engine()(image)
    if result.txts is None:
        return ""
    lines: list[str] = []
    bottom = None
    for box, words in zip(result.boxes, result.txts, strict=True):
        top, low = float(box[:, 1].min()), float(box[:, 1].max())
        # A box that begins above the middle of the last one is on the same line.
        if bottom is not None and top < bottom:
            lines[-1] += f" {words}"
        else:
            lines.append(words)
        bottom = (top + low) / 2
    return "\n".join(lines)


def smaller(line: "NDArray[Any]") -> "NDArray[Any]":
    """Return a long, tall line with a margin above and below, which makes recognition faster; others unchanged.

    Recognition scales every line to a height of 48 pixels, and its time grows with the resulting width. The margin
    makes the letters smaller, but still large enough to be recognised.
    """
    import numpy as np  # only parser processes load it

    height, width = line.shape[:2]
    if height < _CLEAR or width < _LONG * height:
        return line
    margin = round(_MARGIN * height)
    return np.pad(line, ((margin, margin), (0, 0), (0, 0)), mode="edge")


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR  # takes seconds, so only when an image is read

    class Engine(RapidOCR):
        def recognize_txt(self, img: "list[NDArray[Any]]") -> Any:
            return super().recognize_txt([smaller(line) for line in img])

    # One thread: several parsers run at once, and threads that wait for each other waste CPU time.
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    # Lines are detected on a reduced image, and small images aren't enlarged; recognition uses full resolution.
    found_on = {"Det.limit_type": "max", "Det.limit_side_len": _SIDE}
    # One line at a time: a batch pads each line to the widest, which takes a fifth longer.
    read_as = {"Rec.rec_batch_num": 1}
    return Engine(params={"Global.log_level": "critical", **threads, **found_on, **read_as})
