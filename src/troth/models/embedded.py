"""The small classifier that comes with the package, so that everything can be tried within a minute."""

from importlib.resources import as_file, files
from typing import Any

from troth.core.errors import TrothError
from troth.models.base import TextClassifier
from troth.models.encoder import Encoder


class Embedded(Encoder):
    """`embedded_model/README.md` says how it was trained and how good it is."""

    loaded_with = '"embedded"'

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return isinstance(source, str) and source == "embedded"

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        with as_file(files("troth.models") / "embedded_model") as folder:
            try:
                model = super().load(str(folder), **options)
            except TrothError as error:
                raise TrothError(str(error).replace(str(folder), "embedded")) from None
        model.name = "embedded"
        return model
