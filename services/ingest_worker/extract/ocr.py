"""Text of images by rapidocr, of the extra `ocr`: its models are in its package and know English and Chinese."""

import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

from services.ingest_worker.extract import limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSTALL = "install the ocr extra: make extras"
_SIDE = 1280  # pixels
_CLEAR = 20  # pixels: a line as tall is read as well from three quarters of them
_LONG = 10  # times its height: a shorter line costs as much however small it is
_MARGIN = 0.175  # of a line's height, above and below
PIXELS = 40_000_000  # A4 at 600 dpi is 35 million


def installed() -> bool:
    """Return whether images can be read."""
    return importlib.util.find_spec("rapidocr") is not None


def text_of(image: "NDArray[Any]") -> str:
    """Return the words in the image (height × width × RGB), a line per line."""
    result = _engine()(image)
    if result.txts is None:
        return ""
    lines: list[str] = []
    bottom = None
    for box, words in zip(result.boxes, result.txts, strict=True):
        top, low = float(box[:, 1].min()), float(box[:, 1].max())
        # What begins above the middle of the last box stands beside it.
        if bottom is not None and top < bottom:
            lines[-1] += f" {words}"
        else:
            lines.append(words)
        bottom = (top + low) / 2
    return "\n".join(lines)


def smaller(line: "NDArray[Any]") -> "NDArray[Any]":
    """Return a long line with a margin above and below, where its letters are large enough to be read from less.

    Recognition makes every line 48 pixels tall, and takes its time by the width that follows from that.
    """
    import numpy as np  # for the parser processes alone

    height, width = line.shape[:2]
    if height < _CLEAR or width < _LONG * height:
        return line
    margin = round(_MARGIN * height)
    return np.pad(line, ((margin, margin), (0, 0), (0, 0)), mode="edge")


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR  # seconds that only those pay who read images

    class Engine(RapidOCR):
        def recognize_txt(self, img: "list[NDArray[Any]]") -> Any:
            return super().recognize_txt([smaller(line) for line in img])

    # One thread: several parsers run at a time, and threads that wait for each other burn what others need.
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    # Lines are found on a smaller picture, and a small one isn't blown up; they are read as sharp as they are.
    found_on = {"Det.limit_type": "max", "Det.limit_side_len": _SIDE}
    # Line by line: in a batch each is made as wide as the widest, which takes a fifth more.
    read_as = {"Rec.rec_batch_num": 1}
    return Engine(params={"Global.log_level": "critical", **threads, **found_on, **read_as})


def begin(images: int) -> None:
    """Say that so many images will be read, for the time and the memory that it takes."""
    limits.earn(scans=images)
