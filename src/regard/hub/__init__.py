"""Trained models on the Hugging Face hub.

Wherever regard reads a model's folder, `hf://user/name@revision` can be given instead. Loading uses the network only for names
that begin with `hf://`, and only if no local file or folder has the name.
"""

from regard.hub.address import Address, is_address
from regard.hub.download import local_folder
from regard.hub.loading import load
from regard.hub.upload import push

__all__ = ["Address", "is_address", "load", "local_folder", "push"]
