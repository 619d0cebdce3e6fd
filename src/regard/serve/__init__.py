"""Trained models as a web service. Needs the extra `serve`: FastAPI, uvicorn and prometheus-client."""
