"""The scripts that measure a GPU and IWSLT 2014: in small, on a CPU."""

import json

import pytest
import torch
from benchmarks import gpu, iwslt14, sizes


@pytest.mark.parametrize("name", sizes.SIZES)
def test_both_loops_train_on_the_same_batches(name):
    small = sizes.tiny(sizes.SIZES[name])
    batch, again = sizes.make_batch(small, 1), sizes.make_batch(small, 1)
    assert all(torch.equal(one, getattr(again, field)) for field, one in vars(batch).items())
    assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
    found = sizes.compare(name, "cpu", 0.3, small=True)
    for loop in ("regard", "plain, eager"):
        assert 0 < found["loops"][loop]["loss"] < 1.2 * torch.tensor(small.words).log()  # words that are all equally likely
        assert found["loops"][loop]["tokens_per_second"] > 0
    assert found["ratio_to_the_fastest"] > 0


def test_the_plain_language_model_sees_no_later_words():
    small = sizes.tiny(sizes.SIZES["gpt2"])
    torch.manual_seed(0)
    model = sizes.PlainLanguageModel(small.words, 16, 2, 2, 32, small.length).double()
    batch = sizes.make_batch(small, 1)
    seen = []
    with torch.no_grad():
        for last in (5, 6):
            batch.target_in[:, -1] = last
            handle = model.norm.register_forward_hook(lambda module, given, out: seen.append(out))
            model(batch)
            handle.remove()
    torch.testing.assert_close(seen[0][:, :-1], seen[1][:, :-1])
    assert not torch.equal(seen[0][:, -1], seen[1][:, -1])


def test_operations_of_a_token_are_six_for_each_weight_without_attention():
    model = sizes.SIZES["gpt2"]
    attention = 12 * 6 * 1024 * 768  # 12 layers, scores and contexts of half the positions
    weights = 12 * (4 * 768**2 + 2 * 768 * 3072) + 50_000 * 768
    assert sizes.operations(model) == pytest.approx(6 * weights + attention)


def test_parts_that_need_a_gpu_or_files_are_left_out(capsys):
    gpu.main(["--tiny", "--device", "cpu", "--parts", "updates,multihead,additive"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "updates: left out (no --train)"
    assert lines[-2] == "additive: left out (no GPU)"
    found = json.loads(lines[-1])
    assert set(found["multihead"]) == {"MultiHead (2, 16, 32, 2) forward", "MultiHead (2, 16, 32, 2) with gradients"}


def test_a_part_that_fails_does_not_end_the_others(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "compare", lambda *arguments, **options: 1 / 0)
    gpu.main(["--tiny", "--device", "cpu", "--parts", "sizes,multihead"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["sizes"]["error"] == "ZeroDivisionError: division by zero"
    assert len(found["multihead"]) == 2


def test_iwslt14_on_a_folder_of_its_layout(tmp_path, capsys):
    for part, count in (("train", 30), ("valid", 4), ("test", 3)):
        rows = [f"wort{number % 7} haus lo@@ w {'ja ' * (number % 3)}." for number in range(count)]
        (tmp_path / f"{part}.de").write_text("".join(f"{row}\n" for row in rows))
        (tmp_path / f"{part}.en").write_text("".join(f"{row.replace('haus', 'house')}\n" for row in rows))
    small = {"model.hidden_size": 16, "model.num_heads": 2, "model.feed_forward_size": 16, "training.max_steps": 2}
    small |= {"tokenizers.source.size": 60, "tokenizers.target.size": 60, "training.tensorboard": "false", "threads": 1}
    small |= {"model.encoder_layers": 1, "model.decoder_layers": 1, "decoding.max_length": 6}
    arguments = [f"--set={name}={value}" for name, value in small.items()]
    iwslt14.main(["--data", str(tmp_path), *arguments])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["direction"], found["pairs"]) == ("de→en", 30)
    assert 0 <= found["bleu_of_tokens"] <= 100
    assert iwslt14.read_part(tmp_path, "test", "de")[1] == "wort1 haus low ja ."
    (tmp_path / "test.en").unlink()
    with pytest.raises(SystemExit, match=r"test\.en is missing; --data needs train, valid, test"):
        iwslt14.main(["--data", str(tmp_path)])
