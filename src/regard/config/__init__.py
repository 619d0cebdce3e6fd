"""Settings of a run: frozen dataclasses that are read from YAML with strict checks, and written to YAML, without torch.

The name of a class that can be chosen ends in `Config`; bases of several such classes end in `Settings`.
"""

from regard.config.attention import *
from regard.config.captioner import *
from regard.config.classifier import *
from regard.config.data import *
from regard.config.heads import *
from regard.config.language import *
from regard.config.model import *
from regard.config.normalizers import *
from regard.config.pooling import *
from regard.config.pretrained import *
from regard.config.run import *
from regard.config.settings import DataSettings, ModelSettings, Settings
from regard.config.tagger import *
from regard.config.training import *

__all__ = sorted(name for name in globals() if name.endswith("Config") or name in ("DataSettings", "ModelSettings", "Settings"))
