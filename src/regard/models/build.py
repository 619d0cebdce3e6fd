"""Functions that build a model from a configuration or from the name of a preset."""

from collections.abc import Sequence
from types import UnionType
from typing import Any

from regard.attention.arguments import check_size
from regard.attention.base import Attention
from regard.attention.pooling import Pooling
from regard.config import (
    BagClassifierConfig,
    CaptionerConfig,
    ClassifierConfig,
    CombinedClassifierConfig,
    HierarchicalClassifierConfig,
    LanguageModelConfig,
    ModelConfig,
    PretrainedClassifierConfig,
    PretrainedSourceConfig,
    PretrainedTaggerConfig,
    RecurrentCaptionerConfig,
    RecurrentClassifierConfig,
    RecurrentConfig,
    RecurrentTaggerConfig,
    TaggerConfig,
    TransformerCaptionerConfig,
    TransformerClassifierConfig,
    TransformerConfig,
    TransformerTaggerConfig,
)
from regard.config.run import RunConfig
from regard.errors import ConfigError
from regard.models.classifiers.bag import BagClassifier
from regard.models.classifiers.combined import CombinedClassifier
from regard.models.classifiers.hierarchical import HierarchicalClassifier
from regard.models.classifiers.pooled import TextEncoder
from regard.models.classifiers.pretrained import PretrainedClassifier
from regard.models.classifiers.recurrent import RecurrentClassifier, RecurrentEncoder
from regard.models.classifiers.transformer import TransformerClassifier, WordTransformer
from regard.models.copying import CopyingModel
from regard.models.images import build_recurrent_captioner, build_transformer_captioner
from regard.models.language.transformer import TransformerLanguageModel
from regard.models.recurrent.build import build_recurrent
from regard.models.seq2seq import Seq2Seq
from regard.models.taggers import PretrainedText, TextTagger
from regard.models.text_classifier import TextClassifier
from regard.models.transformer.build import build_transformer, build_transformer_language_model
from regard.presets import load_preset
from regard.text.captions.images import Grid

__all__ = ["build_captioner", "build_classifier", "build_language_model", "build_tagger", "build_translator"]

# By task: the kind of its model, as in the name of the function that builds it, and the class of the configuration.
_KINDS: dict[str, tuple[str, type | UnionType]] = {
    "translation": ("translator", ModelConfig),
    "classification": ("classifier", ClassifierConfig),
    "language": ("language_model", LanguageModelConfig),
    "captioning": ("captioner", CaptionerConfig),
    "tagging": ("tagger", TaggerConfig),
}


def build_translator(
    config: ModelConfig | RunConfig | str,
    *,
    source_size: int,
    target_size: int,
    attention: Attention | None = None,
    encoder_ids: Sequence[int] = (),
) -> Seq2Seq:
    """Build a translator with random weights: `regard.build_translator("luong", source_size=8000, target_size=8000)`.

    `model(source, target_in)` gives the scores of the next words.

    Args:
        config: Configuration of the model or of a run, or the name of a preset.
        source_size: Number of words in the source's vocabulary, including the 4 special symbols.
        target_size: Number of words in the target's vocabulary, including the 4 special symbols.
        attention: Your own mechanism, which replaces the configured one.
        encoder_ids: The id of each word of the source in the vocabulary of a pretrained encoder (`Tokenizer.encoder_ids`).

    Raises:
        ConfigError: If sizes do not match, the alignment layer or head does not exist, the configuration is for another kind of
            model, the preset is unknown or for another task, or `attention` is given for a Transformer.
    """
    for name, size in (("source_size", source_size), ("target_size", target_size)):
        check_size("build_translator", name, size, least=4)
    model: ModelConfig = _model_config(config, "translation")
    if isinstance(model.encoder, PretrainedSourceConfig):
        _check_encoder_ids("build_translator", encoder_ids, source_size)
    sizes: dict[str, Any] = {"source_size": source_size, "target_size": target_size, "encoder_ids": encoder_ids}
    built: Seq2Seq
    match model:
        case RecurrentConfig():
            built = build_recurrent(model, **sizes, attention=attention)
        case TransformerConfig():
            _refuse_attention(attention)
            built = build_transformer(model, **sizes)
    return CopyingModel(built) if model.copy else built


def build_captioner(
    config: CaptionerConfig | RunConfig | str, grid: Grid, *, target_size: int, attention: Attention | None = None
) -> Seq2Seq:
    """Build a captioner with random weights, which reads images and writes texts.

    `model(cells, target_in)` gives the scores of the next words, for the cells (B,S,P) of images.

    Args:
        config: Configuration of the model or of a run, or the name of a preset.
        grid: Cells of the canvas; `regard.text.captions.images.Grid(rows=8, columns=12, cell=4, channels=1)`.
        target_size: Number of words in the vocabulary, including the 4 special symbols.
        attention: Your own mechanism, which replaces the configured one of a recurrent model.

    Raises:
        ConfigError: As `build_translator`.
    """
    check_size("build_captioner", "target_size", target_size, least=4)
    model: CaptionerConfig = _model_config(config, "captioning")
    match model:
        case RecurrentCaptionerConfig():
            return build_recurrent_captioner(model, grid, target_size=target_size, attention=attention)
        case TransformerCaptionerConfig():
            _refuse_attention(attention)
            return build_transformer_captioner(model, grid, target_size=target_size)


def _refuse_attention(attention: Attention | None) -> None:
    if attention is not None:
        raise ConfigError(
            "a Transformer has an attention in every layer, and one object cannot replace all of them: build a "
            "regard.models.transformer.TransformerTranslator with your own layers, and pass it to "
            "`regard.fit` as `model`"
        )


def build_classifier(
    config: ClassifierConfig | RunConfig | str,
    *,
    vocabulary_size: int,
    num_labels: int,
    sentence_ends: Sequence[int] = (),
    embedding_size: int = 0,
    encoder_ids: Sequence[int] = (),
    pooling: Pooling | None = None,
) -> TextClassifier:
    """Build a text classifier with random weights: `regard.build_classifier("bilstm", vocabulary_size=8000, num_labels=2)`.

    Args:
        config: Configuration of the model or of a run, or the name of a preset.
        vocabulary_size: Number of words in the vocabulary, including special symbols.
        num_labels: Number of labels.
        sentence_ends: Ids of the tokens that end a sentence (. ! ? …), for the hierarchical model.
        embedding_size: Width of pretrained word vectors, if you will load some; 0 for the configured width.
        encoder_ids: The id of each token in the vocabulary of a pretrained encoder.
        pooling: Your own pooling, which replaces the configured one.

    Raises:
        ConfigError: If sizes do not match, an id of `sentence_ends` is not in the vocabulary, the configuration is for another
            kind of model, the preset is unknown or for another task, or `pooling` is given for a model that does not have
            exactly one pooling.
    """
    check_size("build_classifier", "embedding_size", embedding_size, least=0)
    check_size("build_classifier", "vocabulary_size", vocabulary_size, least=2)
    check_size("build_classifier", "num_labels", num_labels)
    settings: ClassifierConfig = _model_config(config, "classification")
    sizes = {"vocabulary_size": vocabulary_size, "num_labels": num_labels, "embedding_size": embedding_size}
    model: TextClassifier
    match settings:
        case RecurrentClassifierConfig():
            model = RecurrentClassifier(settings, **sizes)
        case TransformerClassifierConfig():
            model = TransformerClassifier(settings, **sizes)
        case BagClassifierConfig():
            model = BagClassifier(settings, **sizes)
        case HierarchicalClassifierConfig():
            model = HierarchicalClassifier(settings, **sizes, sentence_ends=sentence_ends)
        case CombinedClassifierConfig():
            model = CombinedClassifier(settings, **sizes)
        case PretrainedClassifierConfig():
            _check_encoder_ids("build_classifier", encoder_ids, vocabulary_size)
            model = PretrainedClassifier(settings, num_labels=num_labels, encoder_ids=encoder_ids)
    if pooling is not None:
        _replace_pooling(model, pooling)
    return model


def _check_encoder_ids(caller: str, encoder_ids: Sequence[int], vocabulary_size: int) -> None:
    """Check that each token has an id in the vocabulary of a pretrained encoder."""
    if len(encoder_ids) != vocabulary_size:
        raise ConfigError(
            f"{caller}: encoder_ids has {len(encoder_ids):,} ids, expected one for each of the {vocabulary_size:,} words; use "
            "the tokenizer of the encoder"
        )


def check_pooling(name: str, pooling: object) -> None:
    """Check that the caller's own object is a pooling."""
    if not isinstance(pooling, Pooling):
        raise ConfigError(f"{name} is {pooling!r:.80}, expected an object of a regard.attention.Pooling class")


def _replace_pooling(model: TextClassifier, pooling: Pooling) -> None:
    check_pooling("pooling", pooling)
    before = getattr(model, "pooling", None)
    if not isinstance(before, Pooling):
        raise ConfigError(f"a {type(model).__name__} has several poolings or none, so your own pooling cannot replace it")
    if (pooling.size, pooling.output_size) != (before.size, before.output_size):
        raise ConfigError(
            f"the pooling reads states of width {pooling.size} and returns width {pooling.output_size}, but this "
            f"{type(model).__name__} needs widths {before.size} and {before.output_size}"
        )
    model.pooling = pooling


def build_language_model(config: LanguageModelConfig | RunConfig | str, *, vocabulary_size: int) -> TransformerLanguageModel:
    """Build a language model with random weights: `regard.build_language_model("language-tiny", vocabulary_size=8000)`.

    `model(tokens)` gives the scores of the next words.

    Args:
        config: Configuration of the model or of a run, or the name of a preset.
        vocabulary_size: Number of words in the vocabulary, including special symbols.

    Raises:
        ConfigError: If sizes do not match, the configuration is for another kind of model, or the preset is unknown or for
            another task.
    """
    check_size("build_language_model", "vocabulary_size", vocabulary_size, least=4)
    return build_transformer_language_model(_model_config(config, "language"), vocabulary_size=vocabulary_size)


def build_tagger(
    config: TaggerConfig | RunConfig | str,
    *,
    vocabulary_size: int,
    num_tags: int,
    encoder_ids: Sequence[int] = (),
    attention: Attention | None = None,
) -> TextTagger:
    """Build a tagger with random weights: `regard.build_tagger("tagger", vocabulary_size=8000, num_tags=9)`.

    `model(tokens, mask, places)` returns the scores of the tags of the words that begin at the positions `places`.

    Args:
        config: Configuration of the model or of a run, or the name of a preset.
        vocabulary_size: Number of tokens in the vocabulary, including special symbols.
        num_tags: Number of tags.
        encoder_ids: The id of each token in the vocabulary of a pretrained encoder.
        attention: Your own mechanism, which replaces the configured attention of each word over the sentence.

    Raises:
        ConfigError: If sizes do not match, the attention has a state, the configuration is for another kind of model, or the
            preset is unknown or for another task.
    """
    check_size("build_tagger", "vocabulary_size", vocabulary_size, least=4)
    check_size("build_tagger", "num_tags", num_tags)
    settings: TaggerConfig = _model_config(config, "tagging")
    encoder: TextEncoder
    match settings:
        case RecurrentTaggerConfig():
            encoder = RecurrentEncoder(settings, vocabulary_size=vocabulary_size)
        case TransformerTaggerConfig():
            encoder = WordTransformer(settings, vocabulary_size=vocabulary_size)
        case PretrainedTaggerConfig():
            _check_encoder_ids("build_tagger", encoder_ids, vocabulary_size)
            encoder = PretrainedText(settings.encoder, encoder_ids)
    mechanism = settings.attention.build(query_size=encoder.size, key_size=encoder.size) if attention is None else attention
    return TextTagger(encoder, mechanism, num_tags=num_tags, output_dropout=settings.output_dropout)


def _model_config(config: Any, task: str) -> Any:
    """Return the configuration of a model; `config` can also be the configuration of a run or the name of a preset."""
    run = load_preset(config) if isinstance(config, str) else config
    if isinstance(run, RunConfig) and run.task != task:
        what = f"the preset '{config}'" if isinstance(config, str) else "the configuration"
        raise ConfigError(f"{what} is for {run.task}, expected one for {task}")
    model = run.model if isinstance(run, RunConfig) else run
    kind, expected = _KINDS[task]
    if not isinstance(model, expected):
        raise ConfigError(
            f"build_{kind}: config is a {type(model).__name__}, expected the configuration of a {kind.replace('_', ' ')}"
        )
    return model
