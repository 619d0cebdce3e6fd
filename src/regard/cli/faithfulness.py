"""`regard faithfulness`: measure how well attention shows what a model's predictions depend on."""

from collections.abc import Sequence

from regard.cli.evaluate import run_on_files
from regard.cli.options import Parser

_DESCRIPTION = (
    "Measure whether the words that a classifier or a translator attends to are those that its predictions depend on.\n"
    "A table and a few sentences on its meaning for this model are printed. For a classifier, both are also saved in its\n"
    "folder as faithfulness.json, and the captions of its heatmaps contain the sentences.\n\n"
    "For a translator, each source token is deleted, or the attention to it is erased, to measure how much probability\n"
    "the next token of the model's own translation loses. For a classifier:\n"
    "comprehensiveness   how much probability the predicted label loses when the most attended words are deleted\n"
    "sufficiency         how much probability it loses when only these words are left\n"
    "                    both are means over 1, 5, 10, 20 and 50% of the words; the same is shown for random words and\n"
    "                    for the best order tried, which begins with the words whose deletion alone costs most\n"
    "Kendall τ           similarity of the orders by attention and by leave-one-out or gradient × input, from −1 to 1\n"
    "permuted, uniform   change of the predictions when the weights are permuted, or all equal"
)


def main(arguments: Sequence[str]) -> None:
    """Print the measures, with their meaning. For a classifier, they are also saved in its folder."""
    parser = Parser(
        "faithfulness",
        _DESCRIPTION,
        "  regard faithfulness runs/reviews test.tsv\n  regard faithfulness runs/deu test.tsv --texts 100 --picture bars.png\n"
        "  regard faithfulness runs/reviews test.tsv --seeds runs/reviews-2 --seeds runs/reviews-3",
    )
    run_on_files(
        parser,
        "faithfulness",
        arguments,
        files="labelled texts or sentence pairs, preferably not from the training data; or one text file per label",
    )
