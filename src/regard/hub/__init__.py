"""Trained models on the Hugging Face hub.

`regard.load`, `regard.pipeline` and the commands that use a trained model accept `hf://user/name@revision` instead of a folder.
Loading uses the network only for names that begin with `hf://`, and only if no local file or folder has the name.
"""

from regard.hub.address import Address, is_address
from regard.hub.download import local_folder
from regard.hub.upload import push

__all__ = ["Address", "is_address", "local_folder", "push"]
