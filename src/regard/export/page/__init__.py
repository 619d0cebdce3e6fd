"""The living page: one HTML file with trained models and all code that runs them. It needs no server and no network."""

from regard.export.page.write import Page, write_page

__all__ = ["Page", "write_page"]
