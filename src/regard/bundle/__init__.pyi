"""The public names of the package, each with the module that defines it; `__init__.py` reads them from this file."""

from regard.bundle.load import load_bundle as load_bundle
from regard.bundle.save import save_bundle as save_bundle
from regard.bundle.start import StartFiles as StartFiles
from regard.bundle.start import read_start as read_start
