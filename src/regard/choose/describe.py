"""Description of the chosen settings for the report: one line for each part of the configuration."""

from typing import Any

from regard.choose.choice import count
from regard.config import (
    AnyConfig,
    ClassificationConfig,
    LanguageConfig,
    RecurrentConfig,
    TokenizerConfig,
    TransformerConfig,
    TranslationConfig,
)


def describe_settings(config: AnyConfig) -> tuple[str, ...]:
    """Describe the model, tokenizers, training and search of a configuration, in one line each."""
    match config:
        case TranslationConfig(model=model, tokenizers=tokenizers, decoding=decoding):
            source, target = _tokenizer(tokenizers.source), _tokenizer(tokenizers.target)
            spelled = f"{source}, one vocabulary for both sides" if tokenizers.joint else f"{source}; {target}"
            return (
                f"model: {_translator(model)}",
                f"tokenizers: {spelled}",
                _training(config),
                f"search: {decoding.describe()}",
            )
        case ClassificationConfig(tokenizer=tokenizer, model=classifier):
            return f"model: {classifier.kind}", f"tokenizer: {_tokenizer(tokenizer)}", _training(config)
        case LanguageConfig(tokenizer=tokenizer, model=language):
            size = f"Transformer, {count(language.num_layers, 'layer')}, {language.hidden_size} wide, "
            return (
                f"model: {size}dropout {language.layer_dropout:g}",
                f"tokenizer: {_tokenizer(tokenizer)}",
                _training(config),
            )


def _translator(model: TransformerConfig | RecurrentConfig) -> str:
    match model:
        case TransformerConfig():
            layers = f"{model.encoder_layers} + {model.decoder_layers} layers"
            return f"Transformer, {layers}, {model.hidden_size} wide, dropout {model.layer_dropout:g}"
        case RecurrentConfig(encoder=encoder, decoder=decoder):
            order = f"decoder in {decoder.kind.capitalize()}'s order with {decoder.attention.kind} attention"
            return f"recurrent ({encoder.cell.upper()} {encoder.hidden_size} wide, {order})"


def _tokenizer(config: TokenizerConfig) -> str:
    size: Any = getattr(config, "size", None)
    if size is not None:
        return f"{size:,} subwords ({config.kind})"
    return {"characters": "characters", "auto": "words"}.get(config.kind, config.kind)


def _training(config: AnyConfig) -> str:
    training = config.training
    bounds = [
        f"{training.max_epochs:,} epochs" if training.max_epochs < 100_000 else "",
        f"{training.max_steps:,} updates" if training.max_steps else "",
        f"{training.max_minutes:g} minutes" if training.max_minutes else "",
    ]
    return (
        f"training: at most {', '.join(filter(None, bounds))}; batches of {training.batch_tokens:,} tokens; "
        f"{training.optimizer}, learning rate {training.learning_rate:g}, label smoothing {training.label_smoothing:g}"
    )
