"""Extensions of Sphinx that the documentation is built with."""
