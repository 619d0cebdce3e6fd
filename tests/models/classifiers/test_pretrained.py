"""Classifiers with a pretrained encoder, beyond what every classifier must pass."""

import pytest
import torch
from encoders import tiny_encoder

from regard.config import MeanPoolingConfig, PretrainedClassifierConfig, PretrainedEncoderConfig
from regard.models.build import build_classifier
from regard.models.classifiers.pretrained import PretrainedClassifier
from regard.models.pretrained import read_encoder
from regard.reweight import Sites

pytest.importorskip("transformers")


def build(contrastive: bool = False, **settings) -> PretrainedClassifier:
    encoder = read_encoder(PretrainedEncoderConfig(name=tiny_encoder(), **settings))
    config = PretrainedClassifierConfig(
        encoder=encoder, pooling=MeanPoolingConfig(), output_dropout=0.0, contrastive=contrastive
    )
    model = build_classifier(config, vocabulary_size=22, num_labels=3, encoder_ids=range(22))
    assert isinstance(model, PretrainedClassifier)
    model.encoder.load_pretrained()
    return model


def test_the_mean_of_the_states_is_classified():
    transformers = pytest.importorskip("transformers")
    model, tokens = build(tuning="whole").eval(), torch.tensor([[2, 5, 6, 3, 0, 0], [2, 8, 9, 10, 11, 3]])
    library = transformers.AutoModel.from_pretrained(tiny_encoder()).eval()
    mask = tokens != 0
    with torch.no_grad():
        logits, attention = model(tokens, mask, record=("pool",))
        states = library(inputs_embeds=library.get_input_embeddings()(tokens), attention_mask=mask.long()).last_hidden_state
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        torch.testing.assert_close(logits, model.output(mean))
    torch.testing.assert_close(attention["pool"][0], torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0, 0.0]))


def test_the_contrastive_loss_pair_by_pair():
    model, label = build(contrastive=True, tuning="whole").double().eval(), torch.tensor([0, 1, 0])
    tokens = torch.tensor([[2, 5, 6, 3], [2, 8, 9, 3], [2, 10, 3, 0]])
    [logits], loss = model.read_for_training(tokens, tokens != 0, label)
    torch.testing.assert_close(logits, model(tokens, tokens != 0).logits)
    pooled = model.pooling(model.states(model.embed(tokens), tokens != 0, Sites()), key_mask=tokens != 0)[0]
    expected = 0.0
    for one in range(3):
        for other in {0, 1, 2} - {one}:
            cosine = torch.nn.functional.cosine_similarity(pooled[one].float(), pooled[other].float(), dim=0)
            expected += 1 / 2 * (cosine - float(label[one] == label[other])) ** 2
    torch.testing.assert_close(loss, expected)
    assert torch.autograd.grad(logits.sum(), list(model.encoder.parameters()), retain_graph=True, allow_unused=True)[0] is None
    assert torch.autograd.grad(loss, list(model.encoder.parameters()), allow_unused=True)[0] is not None
    assert model.read_for_training(tokens[:1], tokens[:1] != 0, label[:1])[1] == 0
    assert model.read_for_training(tokens, tokens != 0, torch.ones(3, 3))[1] is None
