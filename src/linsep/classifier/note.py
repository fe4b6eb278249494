"""A lesson under way, as it is known beside its model.

    lesson.json   what is being learned, and since when
    lesson.pt     how far it has come, and lesson.previous.pt the state before

Knows files. Knows no torch.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import StateError
from ..settings.signature import problem
from ..storage import files
from ..storage.folder import Text
from .manifest import LARGEST, parsed

NOTE, STATES = "lesson.json", ("lesson.pt", "lesson.previous.pt")  # the newest state first


class Note(BaseModel):
    """What lesson.json says of a lesson that has begun."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    key: Text
    about: Text  # in the words of whoever began it
    begun: Text
    made: dict[Text, Text | Annotated[int, Field(ge=0, lt=2**63)]]  # on what machine


def interrupted(folder: Path) -> Note | None:
    """What was being learned when a lesson was interrupted, if one was."""
    path = folder / NOTE
    if not path.exists():
        return None
    try:
        return Note.model_validate(parsed(path, files.read(path, LARGEST)))
    except ValidationError as error:
        raise StateError(f"{path}: {problem(error)}; delete it to drop the lesson") from None


def forget(folder: Path) -> None:
    """Remove what is kept of a lesson under way."""
    with files.reporting(f"cannot write {folder}"):
        for name in (*STATES, NOTE):
            (folder / name).unlink(missing_ok=True)
