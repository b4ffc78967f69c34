"""The templates of a prompt, which an operator can replace.

minijinja renders them without access to files, code or network, and with a limit of steps.
"""

from collections.abc import Mapping
from importlib.resources import files
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final

import minijinja

from shared.settings import ConfigurationError

NAMES: Final = ("system.jinja", "question.jinja")
_STEPS: Final = 500_000  # of one rendering; a prompt of 300 passages takes 20,000
_SAMPLE_PASSAGE: Final = {
    "number": 1,
    "title": "Title",
    "text": "Text",
    "origin": "file.md",
    "pages": "p.1",
    "source_type": "upload",
    "score": "0.8000",
    "document_id": "1",
}


class Templates:
    """The two templates of a prompt."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take the text of each of `NAMES`."""
        self._environment = minijinja.Environment(
            templates=dict(texts),
            auto_escape_callback=lambda _: False,  # prompts aren't HTML
            undefined_behavior="strict",
            trim_blocks=False,
        )
        self._environment.fuel = _STEPS

    def system(self, *, kind: str, compare: bool = False, as_json: bool = False, **wishes: str | None) -> str:
        """Return the system prompt, which may be empty. `wishes`: persona, style, language, instructions."""
        return self._rendered("system.jinja", kind=kind, compare=compare, as_json=as_json, **wishes)

    def question(
        self, question: str, passages: list[dict[str, Any]], *, compare: bool, marks: tuple[str, str], boundary: str
    ) -> str:
        """Return the question's turn, with the passages between `marks`; `compare` groups them by document.

        `boundary` is the first and the last line between the marks.
        """
        ordered = sorted(passages, key=lambda each: _first(passages, each)) if compare else passages
        documents = [
            {"title": group[0]["title"], "passages": group}
            for _, each in groupby(ordered, key=lambda passage: passage["document_id"])
            if (group := list(each))
        ]
        start, end = marks
        return self._rendered(
            "question.jinja",
            question=question,
            documents=documents,
            compare=compare,
            context_start=start,
            context_end=end,
            boundary=boundary,
        )

    def _rendered(self, name: str, **values: Any) -> str:
        text: str = self._environment.render_template(name, **values)
        return text.strip()


def packaged() -> Templates:
    """Return the templates that come with Sluice."""
    return Templates(_packaged_texts())


def load_templates(folder: Path | None) -> Templates:
    """Return the packaged templates, replaced by those in the folder.

    Raises:
        ConfigurationError: the folder is missing, or has a template of an unknown name or one that can't be rendered.
    """
    if folder is None:
        return packaged()
    if not folder.is_dir():
        raise ConfigurationError(f"SLUICE_PROMPTS={folder} is not a folder")
    found = {path.name: path for path in sorted(folder.glob("*.jinja"))}
    if unknown := [name for name in found if name not in NAMES]:
        raise ConfigurationError(
            f"SLUICE_PROMPTS={folder}: {unknown[0]} is unknown; the templates are {', '.join(NAMES)}"
        )
    try:
        templates = Templates(_packaged_texts() | {name: path.read_text("utf-8") for name, path in found.items()})
        _try_out(templates)
    except (OSError, UnicodeError, minijinja.TemplateError) as error:
        sentence = " ".join(str(error).split())[:200]
        raise ConfigurationError(f"SLUICE_PROMPTS={folder}: {sentence}") from error
    return templates


def _try_out(templates: Templates) -> None:
    """Render every case once, so that a mistake is reported at the start and not during an answer."""
    for kind, compare, as_json, wish in product(
        ("documents", "general", "plain"), (False, True), (False, True), ("wish", None)
    ):
        wishes = dict.fromkeys(("persona", "style", "language", "instructions"), wish)
        templates.system(kind=kind, compare=compare, as_json=as_json, **wishes)
    for compare in (False, True):
        templates.question("Question?", [dict(_SAMPLE_PASSAGE)], compare=compare, marks=("[", "]"), boundary="b")


def _packaged_texts() -> dict[str, str]:
    folder = files(__package__) / "prompts"
    return {name: (folder / name).read_text("utf-8") for name in NAMES}


def _first(passages: list[dict[str, Any]], passage: dict[str, Any]) -> int:
    return next(at for at, each in enumerate(passages) if each["document_id"] == passage["document_id"])
