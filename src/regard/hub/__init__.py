"""Trained models on the Hugging Face hub: `hf://user/name@revision` wherever a folder is expected.

The network is used only for names with that prefix, and only if no local folder has the name.
"""

from regard.hub.address import Address, is_address
from regard.hub.download import local_folder
from regard.hub.loading import load
from regard.hub.upload import push

__all__ = ["Address", "is_address", "load", "local_folder", "push"]
