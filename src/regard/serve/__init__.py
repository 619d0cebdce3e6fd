"""Trained models as a web service. Needs the extra `serve`: FastAPI, uvicorn and prometheus-client."""

from regard.serve.app import build_app
from regard.serve.limits import Limits
from regard.serve.models import named_folders
from regard.serve.server import listen, run

__all__ = ["Limits", "build_app", "listen", "named_folders", "run"]
