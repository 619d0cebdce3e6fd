"""The attention of one prediction as plain data. This package needs numpy, but neither torch nor a drawing library."""

from regard.records.alignment import Link, alignment_error_rate, format_pharaoh, parse_pharaoh, read_pharaoh
from regard.records.builders import from_huggingface, load_record, record
from regard.records.data import AttentionRecord
from regard.records.encoding import FORMAT_VERSION
from regard.records.layouts import frames, patches
from regard.records.segments import ImageSegment, Segment, SoundSegment, TextSegment
from regard.records.subwords import join_subwords
from regard.records.through_layers import rollout

__all__ = [
    "FORMAT_VERSION",
    "AttentionRecord",
    "ImageSegment",
    "Link",
    "Segment",
    "SoundSegment",
    "TextSegment",
    "alignment_error_rate",
    "format_pharaoh",
    "frames",
    "from_huggingface",
    "join_subwords",
    "load_record",
    "parse_pharaoh",
    "patches",
    "read_pharaoh",
    "record",
    "rollout",
]
