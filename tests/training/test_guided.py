"""Attention that is trained towards given links (Garg et al. 2019)."""

from dataclasses import replace
from random import Random

import pytest
import torch

from regard import evaluate_alignment
from regard.config import TeacherForcingConfig, TokenizersConfig, TransformerConfig, WhitespaceConfig
from regard.config.loading import load_config
from regard.errors import ConfigError
from regard.tasks.objective import alignment_loss
from regard.training import fit

SMALL = TransformerConfig(
    hidden_size=16, num_heads=2, feed_forward_size=16, encoder_layers=1, decoder_layers=2, alignment_layer=1, alignment_head=0,
    embedding_dropout=0, layer_dropout=0,
)  # fmt: skip


def test_the_loss_by_hand():
    weights = torch.tensor([[[0.5, 0.5], [0.25, 0.75], [0.9, 0.1]]])
    gold = torch.tensor([[[0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]])
    log = weights[0].log()
    produced = -(log[0, 1] + (log[1, 0] + log[1, 1]) / 2)
    consumed = -(log[1, 1] + (log[2, 0] + log[2, 1]) / 2)
    torch.testing.assert_close(alignment_loss(weights, gold, "produce"), produced)
    torch.testing.assert_close(alignment_loss(weights, gold, "consume"), consumed)
    assert alignment_loss(torch.zeros(1, 2, 2), torch.ones(1, 2, 2), "produce").isfinite()


def test_a_head_learns_links_that_help_no_translation(config, change, tmp_path):
    """Every word is linked with the first of the source: only the gold can have taught that."""
    draw = Random(1)
    sources = [" ".join(draw.choices("abcdefgh", k=draw.randint(3, 6))) for _ in range(80)]
    links = [{(0, t) for t in range(len(s.split()))} for s in sources]
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{s}\n" for s in sources))
    # Gold for half of the pairs only.
    (tmp_path / "links").write_text("".join(" ".join(f"{s}-{t}" for s, t in pair) + "\n" for pair in links[:40]))
    data = replace(config.data, train=(str(tmp_path / "pairs.tsv"),), dev=(), dev_size=0, alignments=str(tmp_path / "links"))
    words = TokenizersConfig(source=WhitespaceConfig(), target=WhitespaceConfig())
    run = replace(config, data=data, tokenizers=words, model=SMALL)
    settings = {"max_epochs": 10, "learning_rate": 1e-2, "accumulate": 1, "ema_decay": 0.0, "alignment_weight": 1.0}
    run = change(run, teacher_forcing=TeacherForcingConfig(), monitor="loss", validation_pairs=0, **settings)
    translator = fit(run, progress=False)
    error = evaluate_alignment(translator, sources[40:], sources[40:], links[40:])
    assert error < 0.1
    assert evaluate_alignment(translator, sources[40:], sources[40:], links[40:], site="cross.1", head=0) == error


def test_layers_and_heads_that_are_not_there():
    for name, message in (("alignment_layer", "decoder_layers"), ("alignment_head", "num_heads")):
        with pytest.raises(ConfigError, match=rf"model.{name} is 4, expected less than model.{message} \(4\), or -1"):
            load_config({"model": {"kind": "transformer", name: 4}})
    with pytest.raises(ConfigError, match=r"model.alignment_head is -2, expected -1 or more"):
        load_config({"model": {"kind": "transformer", "alignment_head": -2}})
