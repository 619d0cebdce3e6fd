"""Everything that the user did not set is chosen from the data, and what was set stays."""

import pytest

from regard.choose import choose_config
from regard.config import CharactersConfig, LuongDecoderConfig, RecurrentConfig, TransformerConfig, WordsConfig
from regard.config.loading import load_config, override_layer, parse_layer, read_layer, render_config
from regard.errors import ConfigError, DataError


@pytest.fixture
def pairs(tmp_path):
    """Make a file of so many pairs and return the overrides that name it."""

    def pairs(number, target="ein Hund läuft am Abend schnell durch den Park"):
        path = tmp_path / f"pairs{number}.tsv"
        path.write_text("".join(f"a dog runs quickly through park {n}\t{target} {n}\n" for n in range(number)), "utf-8")
        return {"data.train": [str(path)]}

    return pairs


def test_more_data_give_larger_vocabularies_and_fewer_epochs(pairs):
    few, some, many = (choose_config("translation", pairs(number)) for number in (100, 3_000, 30_000))
    sizes = [config.tokenizers.source.size for config in (few, some, many)]
    epochs = [config.training.max_epochs for config in (few, some, many)]
    held_out = [config.data.dev_size for config in (few, some, many)]
    assert sizes == sorted(set(sizes))
    assert epochs == sorted(set(epochs), reverse=True)
    assert held_out == sorted(set(held_out))
    assert few.training.batch_tokens < many.training.batch_tokens


def test_longer_texts_give_larger_language_models(tmp_path):
    found = []
    for characters in (20_000, 200_000, 2_000_000):
        path = tmp_path / f"{characters}.txt"
        path.write_text("".join(f"a dog runs through park {number:05}\n" for number in range(characters // 30)), "utf-8")
        config = choose_config("language", {"data.train": [str(path)]})
        training = config.training
        found.append((config.tokenizer.size, config.model.num_layers, -training.max_epochs, training.batch_tokens))
    assert found == sorted(found)
    assert found[0][0] < found[1][0] < found[2][0]


def test_a_tokenizer_of_subwords_has_the_size_that_fits_the_texts(tmp_path):
    (tmp_path / "a.txt").write_text("a dog runs through the park\n" * 50, "utf-8")
    sizes = [
        choose_config("language", {"data.train": [str(tmp_path / "a.txt")], **kind}).tokenizer.size
        for kind in ({}, {"tokenizer.kind": "bpe"}, {"tokenizer.kind": "unigram"})
    ]
    assert sizes == [500, 500, 500]


def test_the_same_data_give_the_same_settings(pairs):
    overrides = pairs(50)
    assert choose_config("translation", overrides) == choose_config("translation", overrides)


def test_the_report_says_what_was_found_and_chosen(pairs):
    config = choose_config("translation", pairs(1200))
    text = "\n".join(config.chosen)
    assert "1,200 pairs, with 7.0 words per source and 10.0 per target" in text
    for part in ("model: ", "tokenizers: ", "training: ", "search: "):
        assert part in text
    assert f"{config.training.max_epochs} epochs" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.hidden_size", 64),
        ("model.layer_dropout", 0.05),
        ("training.batch_tokens", 777),
        ("training.label_smoothing", 0.03),
        ("training.learning_rate", 0.0123),
        ("training.max_epochs", 2),
        ("decoding.length_reward", 0.77),
        ("data.dev_size", 3),
        ("tokenizers.joint", True),
    ],
)
def test_any_setting_overrides_the_choice(pairs, name, value):
    config = choose_config("translation", pairs(40) | {name: str(value).lower()})
    for part in name.split("."):
        config = getattr(config, part)
    assert config == value


def test_a_file_of_settings_overrides_too_and_options_go_over_it(pairs):
    layer = parse_layer("model: {hidden_size: 32, num_heads: 2}\ntraining: {max_epochs: 4}", "run.yaml")
    config = choose_config("translation", pairs(40) | {"training.max_epochs": "5"}, layer)
    assert (config.model.hidden_size, config.model.num_heads, config.training.max_epochs) == (32, 2, 5)


def test_settings_of_a_kind_choose_the_kind(pairs):
    config = choose_config("translation", pairs(40) | {"model.encoder.hidden_size": "32"})
    assert isinstance(config.model, RecurrentConfig)
    assert config.model.encoder.hidden_size == 32
    assert isinstance(config.model.decoder, LuongDecoderConfig)
    assert (config.training.optimizer, config.training.learning_rate) == ("muon", 8e-3)
    assert isinstance(choose_config("translation", pairs(40) | {"model.decoder_layers": "1"}).model, TransformerConfig)


def test_a_decoder_of_another_kind_keeps_its_regularisation(pairs):
    config = choose_config("translation", pairs(40) | {"model.kind": "recurrent", "model.decoder.kind": "bahdanau"})
    assert config.model.decoder.kind == "bahdanau"
    assert config.model.decoder.readout_dropout > 0


def test_recurrent_translators_of_sentences_have_fewer_epochs_with_muon(pairs):
    muon, same, adam, pretrained = (
        choose_config("translation", pairs(40) | {"model.kind": "recurrent"} | more).training
        for more in (
            {},
            {"training.optimizer": "muon"},
            {"training.optimizer": "adam"},
            {"model.encoder.name": "some/encoder"},
        )
    )
    assert same == muon
    assert (muon.optimizer, muon.learning_rate, muon.weight_decay) == ("muon", 8e-3, 0.1)
    assert (adam.optimizer, adam.learning_rate, adam.weight_decay) == ("adam", 2e-3, 0)
    assert muon.max_epochs == round(0.6 * adam.max_epochs)
    assert (pretrained.optimizer, pretrained.max_epochs) == ("adamw", adam.max_epochs)


def test_with_many_sentences_other_optimizers_have_few_more_epochs_than_muon(pairs):
    given = pairs(30_000) | {"model.kind": "recurrent"}
    muon, adam = (choose_config("translation", given | {"training.optimizer": name}).training for name in ("muon", "adam"))
    assert muon.max_epochs <= adam.max_epochs <= 1.2 * muon.max_epochs


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_another_optimizer_gets_a_rate_that_fits_it(pairs, optimizer):
    training = choose_config("translation", pairs(40) | {"training.optimizer": optimizer}).training
    assert training.learning_rate < 5e-3
    assert training.weight_decay <= 0.05


def test_own_tokenizers_are_kept(pairs):
    config = choose_config("translation", pairs(40) | {"tokenizers.source.kind": "words"})
    assert isinstance(config.tokenizers.source, WordsConfig)
    assert not config.tokenizers.joint
    assert config.model.tie_embeddings == "target"


def test_bounds_of_the_user_replace_ours(pairs):
    config = choose_config("translation", pairs(40) | {"training.max_steps": "100000"})
    assert config.training.max_steps == 100000
    assert config.training.max_epochs >= 100000 // 10
    config = choose_config("translation", pairs(40) | {"training.max_epochs": "3"})
    assert (config.training.max_epochs, config.training.max_steps) == (3, 0)
    assert choose_config("translation", pairs(40) | {"training.max_minutes": "3"}).training.max_epochs > 1


def test_characters_where_words_are_not_separated(pairs):
    config = choose_config("translation", pairs(60, target="她吻了他"))
    assert isinstance(config.tokenizers.target, CharactersConfig)
    assert not config.tokenizers.joint
    assert config.model.tie_embeddings == "target"
    assert "the target has no spaces between words" in config.chosen


ROWS = [f"{1 + n % 28:02d}" for n in range(300)]
SPELLED = {
    "phones": ([f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(300)], [f"W {'AEIO'[n % 4]}1 K" for n in range(300)]),
    "letters": ([f"w {chr(97 + n % 26)} k" for n in range(300)], [f"W {'AEIO'[n % 4]}1 K" for n in range(300)]),
    "plurals": ([f"cat{n}" for n in range(300)], [f"cat{n}s" for n in range(300)]),
    "dates": ([f"{day} mai {1900 + n}" for n, day in enumerate(ROWS)], [f"{1900 + n}-05-{d}" for n, d in enumerate(ROWS)]),
    "names": ([f"John Smith{n}" for n in range(300)], [f"Джон Смит{n}" for n in range(300)]),
    "numbers": ([f"nine hundred thousand and {'one' if n % 2 else 'two'} hundred" for n in range(300)], ["9"] * 299 + ["10"]),
}


@pytest.mark.parametrize("kind", SPELLED)
def test_short_strings_are_spelled(tmp_path, kind):
    path = tmp_path / "strings.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*SPELLED[kind], strict=True)), "utf-8")
    given = {"data.train": [str(path)], "data.columns": ["0", "1"]}  # a text beside numbers is refused without the columns
    config = choose_config("translation", given)
    assert isinstance(config.model, RecurrentConfig)
    kinds = [tokenizer.kind for tokenizer in (config.tokenizers.source, config.tokenizers.target)]
    symbols = {"phones": ["characters", "whitespace"], "letters": ["whitespace", "whitespace"]}
    assert kinds == symbols.get(kind, ["characters", "characters"])
    assert config.decoding.length_penalty == 0
    assert not config.tokenizers.joint
    assert config.model.tie_embeddings == "target"
    assert any("short strings" in line for line in config.chosen)
    transformer = choose_config("translation", {**given, "model.kind": "transformer"})
    assert transformer.tokenizers == config.tokenizers


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("go away", "geh weg"),  # sentences, although they are short
        ("she kissed him on the cheek and left", "sie küsste ihn auf die Wange und ging"),
        ("we have two red apples", "我们有两个红色的苹果"),
    ],
)
def test_sentences_are_not_spelled(tmp_path, source, target):
    path = tmp_path / "sentences.tsv"
    path.write_text("".join(f"{source} {n}.\t{target} {n}.\n" for n in range(300)), "utf-8")
    config = choose_config("translation", {"data.train": [str(path)]})
    assert config.tokenizers.source.kind == "bpe"
    assert not any("short strings" in line for line in config.chosen)


VERBS = ("go", "run", "stop", "wait", "eat", "sit", "look", "sleep", "fly", "swim")
TWO = [(one, other) for one in VERBS for other in VERBS]
SHORT = {
    "phrases": ([f"{one} {other}" for one, other in TWO], [f"{one}e und {other}e" for one, other in TWO]),
    "intents": ([f"please {one} or {other} now" for one, other in TWO], ["play_music", "set_alarm"] * 50),
    "Chinese": ([f"我爱{chr(0x4E00 + n)}" for n in range(100)], [f"i like the {one} {other}" for one, other in TWO]),
    "tags": ([f"they {one} and {other}" for one, other in TWO], ["PP VB CC VB", "PP VB RB VB"] * 50),
}


@pytest.mark.parametrize("kind", SHORT)
def test_short_texts_whose_words_recur_are_not_spelled(tmp_path, kind):
    path = tmp_path / "short.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*SHORT[kind], strict=True)), "utf-8")
    config = choose_config("translation", {"data.train": [str(path)]})
    assert not any("short strings" in line for line in config.chosen)
    assert config.tokenizers.source.kind == ("characters" if kind == "Chinese" else "bpe")
    assert config.tokenizers.target.kind == "bpe"


def test_other_letters_get_vocabularies_of_their_own(pairs):
    config = choose_config("translation", pairs(60, target="она поцеловала его"))
    assert config.tokenizers.source.kind == config.tokenizers.target.kind == "bpe"
    assert not config.tokenizers.joint


def test_a_whole_configuration_leaves_nothing_to_choose(pairs, tmp_path):
    chosen = choose_config("translation", pairs(40))
    whole = tmp_path / "whole.yaml"
    whole.write_text(render_config(chosen), "utf-8")
    again = choose_config("translation", {}, read_layer(whole))
    assert again == chosen
    plain = load_config(override_layer(pairs(40)))
    assert choose_config("translation", {}, parse_layer(render_config(plain), "plain")).chosen == ()


def test_mistakes_are_named(pairs, tmp_path):
    with pytest.raises(ConfigError, match=r"data.train is empty, .*; set data.train to a file"):
        choose_config("translation")
    with pytest.raises(ConfigError, match=r"unknown setting 'training.max_epoch'; did you mean 'training.max_epochs'"):
        choose_config("translation", pairs(4) | {"training.max_epoch": "3"})
    with pytest.raises(ConfigError, match=r"training.max_epochs is inf, expected a whole number"):
        choose_config("translation", pairs(4) | {"training.max_epochs": float("inf")})
    with pytest.raises(DataError, match=r"none\.tsv"):
        choose_config("translation", {"data.train": [str(tmp_path / "none.tsv")]})


def test_every_classifier_gets_scores(tmp_path):
    few, more, many = (tmp_path / f"{name}.tsv" for name in ("few", "more", "many"))
    for path, number in ((few, 100), (more, 5000), (many, 20_001)):
        path.write_text("".join(f"film {n}\t{('good', 'bad')[n % 2]}\n" for n in range(number)), "utf-8")

    def choose(path, **settings):
        config = choose_config("classification", {"data.train": [str(path)], **settings})
        return config.training.score_folds, config.data.dev_size

    assert choose(few) == (5, 0)
    assert choose(more) == (3, 0)
    assert choose(many) == (0, 1000)
    assert choose(few, **{"training.score_folds": "3"}) == (3, 0)
    assert choose(few, **{"data.dev_size": "10"}) == (0, 10)
    for zero in (0, "0"):  # the command line gives text
        assert choose(few, **{"data.dev_size": zero}) == choose(few, **{"data.folds": zero}) == (5, 0)
    assert choose(few, **{"data.folds": "10"})[0] == 0
    assert choose(few, **{"data.dev": [str(more)]})[0] == 0
    assert choose(few, **{"model.kind": "recurrent"}) == (0, 200)


def test_a_pretrained_encoder_is_recommended_and_its_settings_follow_the_texts(tmp_path):
    few, many = tmp_path / "few.tsv", tmp_path / "many.tsv"
    for path, texts, words in ((few, 100, 1), (many, 6000, 500)):
        path.write_text("".join(f"film {n} {'word ' * words}\t{n % 2}\n" for n in range(texts)), "utf-8")

    def choose(path, **settings):
        return choose_config("classification", {"data.train": [str(path)], **settings})

    advised = "a pretrained encoder is usually more accurate"
    assert advised in " ".join(choose(few).chosen)
    assert advised not in " ".join((*choose(few, **{"model.kind": "combined"}).chosen, *choose(many).chosen))
    named = {"model.encoder.name": "some/encoder"}
    config = choose(few, **named)
    assert (config.model.kind, config.tokenizer.kind, config.tokenizer.name) == ("pretrained", "pretrained", "some/encoder")
    assert (config.model.encoder.tuning, config.model.contrastive, config.data.dev_size) == ("whole", True, 0)
    assert config.training.max_epochs == 10
    config = choose(many, **named)
    assert (config.model.encoder.tuning, config.model.contrastive, config.data.dev_size) == ("frozen", False, 200)
    assert config.training.max_epochs == 20
    assert choose(many, **named, **{"model.encoder.tuning": "lora"}).model.encoder.tuning == "lora"


def test_the_kind_of_classifier_depends_on_the_amount_of_text(tmp_path):
    few, many, vectors = tmp_path / "few.tsv", tmp_path / "many.tsv", tmp_path / "v.txt"
    few.write_text("a good film\tgood\na bad film\tbad\n" * 4, "utf-8")
    many.write_text("".join(f"film {n} {'word ' * 500}\t{('good', 'bad')[n % 2]}\n" for n in range(6000)), "utf-8")
    vectors.write_text("good 1 2\n", "utf-8")
    assert choose_config("classification", {"data.train": [str(few)]}).model.kind == "combined"
    assert choose_config("classification", {"data.train": [str(many)]}).model.kind == "bag"
    assert choose_config("classification", {"data.train": [str(few)], "data.vectors": str(vectors)}).model.kind == "recurrent"
    assert choose_config("classification", {"data.train": [str(few)], "model.max_ngram": "3"}).model.kind == "bag"


def test_a_model_that_copies_gets_words(pairs):
    for number in (60, 3_000):
        config = choose_config("translation", pairs(number) | {"model.copy": True})
        assert config.model.copy
        assert config.tokenizers.source == config.tokenizers.target == WordsConfig(min_count=2)
        assert (config.tokenizers.joint, config.model.tie_embeddings) == (False, "target")
    with pytest.raises(ConfigError, match="kind is 'bpe', which spells unknown words from known parts"):
        choose_config("translation", pairs(60) | {"model.copy": True, "tokenizers.source.kind": "bpe"})


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_translator_with_a_pretrained_encoder_has_its_tokenizer(kind, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"the man number {n} sings\tder Mann Nummer {n} singt\n" for n in range(300)), "utf-8")
    settings = {"data.train": [str(path)], "model.kind": kind, "model.encoder.name": "some/encoder"}
    config = choose_config("translation", settings)
    assert (config.model.kind, config.model.encoder.kind, config.model.encoder.tuning) == (kind, "pretrained", "frozen")
    assert (config.tokenizers.source.kind, config.tokenizers.joint) == ("pretrained", False)
    assert (config.tokenizers.target.kind, config.training.optimizer) == ("bpe", "adamw")
    cell = choose_config("translation", {"data.train": [str(path)], "model.encoder.cell": "lstm"})
    assert cell.model.kind == "recurrent"
