"""Attributions of models of `transformers`, against gradients, paths and changed values computed by hand."""

import numpy as np
import pytest
import torch
from analysis.test_huggingface import SIZES, build, wrap

import regard
from regard.errors import RequestError
from regard.viz.caption import write

TEXT = "unbelievable readers and stories"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
GPT2 = {"vocab_size": 90, "n_embd": 16, "n_layer": 2, "n_head": 4, "num_labels": 3}
LLAMA = SIZES | {"num_key_value_heads": 2, "num_labels": 3}
MODELS = {
    "bert": ("BertForSequenceClassification", "BertConfig", "wordpiece", SIZES | {"num_labels": 3}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", "bytes", GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", "bytes", LLAMA),
    "llama label": ("LlamaForSequenceClassification", "LlamaConfig", "bytes", LLAMA),
}


def make(name, factor=3):
    kind, config, scheme, sizes = MODELS[name]
    model, tokenizer = build(kind, config, **sizes).double().eval(), wrap(scheme)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)  # far from equal weights
    return model, tokenizer, tokenizer(TEXT, return_tensors="pt")


def scores_of(logits, ids):
    """Return the log probability (T,) of the label, or of each next token, the last of which is the most probable one."""
    logs = logits.log_softmax(-1)[0]
    if logs.ndim == 1:
        return logs.max()[None]
    return torch.cat([logs[range(len(ids) - 1), ids[1:]], logs[-1].max()[None]])


def site_of(name, record):
    return name if record.is_classification else f"decoder.{name}"


@pytest.mark.parametrize("name", MODELS)
def test_gradient_times_attention(name):
    model, tokenizer, encoded = make(name)
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["gradients"])
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("eager")
    output = model(**encoded, output_attentions=True)
    for step, score in enumerate(scores_of(output.logits, encoded["input_ids"][0])):
        slopes = torch.autograd.grad(score, output.attentions, retain_graph=True)
        layers = [(a * g).clamp(min=0)[0].mean(0) for a, g in zip(output.attentions, slopes, strict=True)]
        expected = sum(each.sum(0) if record.is_classification else each[step] for each in layers) / len(layers)
        found = record.weights[site_of("gradients", record)][step]
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5, atol=1e-9)
    assert np.abs(record.weights[site_of("gradients", record)]).max() > 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_integrated_gradients(name):
    model, tokenizer, encoded = make(name, 1.5)
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions="integrated")
    [ids] = encoded["input_ids"]
    blank = torch.tensor([each if each in tokenizer.all_special_ids else tokenizer.unk_token_id for each in ids.tolist()])
    embed = model.get_input_embeddings()
    first, last = embed(blank[None]).detach(), embed(ids[None]).detach()
    with torch.no_grad():
        logits = model(**encoded).logits
    decided = logits[0].argmax() if logits.ndim == 2 else torch.cat([ids[1:], logits[0, -1:].argmax(-1)])

    def scores(embedded):
        rest = {each: encoded[each] for each in encoded if each != "input_ids"}
        logs = model(inputs_embeds=embedded, **rest).logits.log_softmax(-1)[0]
        return logs[decided][None] if logs.ndim == 1 else logs[range(len(ids)), decided]

    total, points = 0, 100
    for share in (np.arange(points) + 0.5) / points:
        leaf = (first + share * (last - first)).requires_grad_()
        slopes = [torch.autograd.grad(score, leaf, retain_graph=True)[0] for score in scores(leaf)]
        total = total + torch.cat(slopes) / points
    found = record.weights[site_of("integrated", record)]
    np.testing.assert_allclose(found, (total * (last - first)).sum(-1).numpy(), rtol=1e-3, atol=2e-5)
    with torch.no_grad():
        difference = (scores(last) - scores(first)).numpy()
    np.testing.assert_allclose(found.sum(1), difference, rtol=0, atol=2e-5)


def zero_value(model, place):
    """Let the value vectors of a token be zero in all layers."""

    def zero(module, inputs, output):
        size = output.shape[-1] // 3 if type(module).__name__ == "Conv1D" else output.shape[-1]  # GPT-2's q, k and v
        output = output.clone()
        output[:, place, -size:] = 0
        return output

    names = ("attention.self.value", "attn.c_attn", "v_proj")
    return [part.register_forward_hook(zero) for name, part in model.named_modules() if name.endswith(names)]


@pytest.mark.parametrize("name", MODELS)
def test_value_zeroing(name):
    model, tokenizer, encoded = make(name)
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["values"])
    [ids] = encoded["input_ids"]
    with torch.no_grad():
        whole = model(**encoded).logits.log_softmax(-1)[0]
    decided = whole.argmax() if whole.ndim == 1 else torch.cat([ids[1:], whole[-1:].argmax(-1)])
    for place in range(len(ids)):
        hooks = zero_value(model, place)
        assert len(hooks) == 2
        with torch.no_grad():
            lost = whole - model(**encoded).logits.log_softmax(-1)[0]
        for hook in hooks:
            hook.remove()
        expected = lost[decided][None] if lost.ndim == 1 else lost[range(len(ids)), decided]
        found = record.weights[site_of("values", record)]
        np.testing.assert_allclose(found[:, place], expected.numpy(), rtol=1e-5, atol=1e-7)
    if name == "gpt2":
        assert not np.triu(found, 1).any()


def test_the_record_of_a_classifier(tmp_path):
    model, tokenizer, encoded = make("llama label")
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["all"])
    assert record.sites == ("encoder.0", "encoder.1", "gradients", "integrated", "values")
    best = model(**encoded).logits[0].softmax(-1)
    assert record.target_words == (f"LABEL_{int(best.argmax())}",)
    assert list(record.probabilities.values()) == pytest.approx(best.tolist())
    assert record.source_words == ("unbelievable", "readers", "and", "stories")
    path = tmp_path / "words.svg"
    caption = " ".join(record.save(path, site="integrated") or path.read_text().split())
    assert "integrated gradients" in caption


def test_the_record_of_a_language_model():
    model, tokenizer, _ = make("gpt2")
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["all"])
    plain = regard.from_huggingface(model, tokenizer, TEXT)
    assert record.sites[2:] == ("decoder.rollout", "decoder.gradients", "decoder.integrated", "decoder.values")
    np.testing.assert_allclose(
        record.weights["decoder.rollout"], plain.rollout("decoder").weights["decoder.rollout"], atol=1e-6
    )
    [told, *_] = write(record, ["decoder.values"], [record.view("decoder.values")])
    assert "how much the log probability of the next word falls if attention passes nothing on" in told
    last = regard.from_huggingface(model, tokenizer, TEXT, rows=[-1], attributions=["gradients", "integrated", "values"])
    assert last.sites[2:] == ("gradients", "integrated", "values")
    for name in last.sites[2:]:
        np.testing.assert_allclose(last.weights[name], record.weights[f"decoder.{name}"][-1:], rtol=1e-5, atol=1e-7)


def test_several_labels():
    model, tokenizer, encoded = make("bert")
    model.config.problem_type = "multi_label_classification"
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["values"])
    assert list(record.probabilities.values()) == pytest.approx(model(**encoded).logits[0].sigmoid().tolist())


def test_labels_without_a_name():
    model, tokenizer, _ = make("bert")
    model.config.id2label = {0: "good"}
    record = regard.from_huggingface(model, tokenizer, TEXT, attributions=["values"])
    assert list(record.probabilities) == ["good", "LABEL_1", "LABEL_2"]


def test_a_model_that_changes_its_embeddings_in_place():
    sizes = {"vocab_size": 90, "n_embd": 16, "n_layer": 2, "n_head": 4, "dff": 9}
    model = build("CTRLLMHeadModel", "CTRLConfig", attention="eager", **sizes).double()
    record = regard.from_huggingface(model, wrap("wordpiece"), TEXT, attributions=["integrated"])
    assert np.abs(record.weights["decoder.integrated"]).max() > 1e-3


def test_refusals():
    tokenizer = wrap("wordpiece")
    for name in ("BertModel", "BertForMaskedLM"):
        with pytest.raises(RequestError, match=f"attributions of {name} are not possible, expected a causal language model"):
            regard.from_huggingface(build(name, "BertConfig", **SIZES), tokenizer, TEXT, attributions=["values"])
    model, tokenizer, _ = make("bert")
    with pytest.raises(RequestError, match="without rows"):
        regard.from_huggingface(model, tokenizer, TEXT, rows=[0], attributions=["values"])
    with pytest.raises(RequestError, match=r"there is no attribution 'value', .*did you mean 'values'"):
        regard.from_huggingface(model, tokenizer, TEXT, attributions=["value"])
    with pytest.raises(RequestError, match="leave_one_out: the text"):
        regard.from_huggingface(model, tokenizer, TEXT, attributions=["leave_one_out"])
    tokenizer.unk_token = None
    with pytest.raises(RequestError, match=r"set tokenizer\.unk_token"):
        regard.from_huggingface(model, tokenizer, TEXT, attributions=["integrated"])
