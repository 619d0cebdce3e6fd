"""Parts of a long page that are folded, and the field that searches them (docs/_static/regard.js)."""


def folded(title: str, text: str) -> str:
    """Return Markdown for text that is shown when its title is clicked."""
    return f":::{{dropdown}} {title}\n{text}\n:::"


def search_field(label: str) -> str:
    """Return the field that searches the folded texts of a page; the script `regard.js` shows it."""
    return f'<p data-filter hidden><label>{label} <input type="search" size="24"></label> <output></output></p>'
