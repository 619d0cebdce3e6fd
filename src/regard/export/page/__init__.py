"""The living page: a trained model with everything that runs it, in one HTML file that opens without a server or a network."""

from regard.export.page.write import Page, write_page

__all__ = ["Page", "write_page"]
