"""The attention of one prediction as plain data: no torch, no drawing library, only numpy.

The package is callable, because its name is also the name of what people want from it:

    import regard
    regard.record(weights, source_words, target_words).save("map.png")

Python binds a package's submodules to the package, so `regard.record` is this module from the first import of anything in
it, whatever `regard` itself says. A callable module is the one solution that means the same in every order of imports.
"""

import sys
from types import ModuleType
from typing import Any

from regard.record.alignment import Link, alignment_error_rate, format_pharaoh, parse_pharaoh, read_pharaoh
from regard.record.data import FORMAT_VERSION, AttentionRecord
from regard.record.files import load_record
from regard.record.huggingface import from_huggingface
from regard.record.plain import record
from regard.record.subwords import join_subwords
from regard.record.through_layers import rollout

__all__ = [
    "FORMAT_VERSION",
    "AttentionRecord",
    "Link",
    "alignment_error_rate",
    "format_pharaoh",
    "from_huggingface",
    "join_subwords",
    "load_record",
    "parse_pharaoh",
    "read_pharaoh",
    "record",
    "rollout",
]


class _CallableModule(ModuleType):
    def __call__(self, weights: Any, source_words: Any, target_words: Any, **fields: Any) -> AttentionRecord:
        return record(weights, source_words, target_words, **fields)


_CallableModule.__call__.__doc__ = record.__doc__
sys.modules[__name__].__class__ = _CallableModule
