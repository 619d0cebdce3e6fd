"""Training from a configuration to a translator, and going on with a run that was stopped."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning

from regard import __version__
from regard.attention.base import Attention
from regard.bundle import Bundle, save_bundle
from regard.bundle.bundle import Custom
from regard.config import TranslationConfig
from regard.config.checks import check_config
from regard.errors import ConfigError, DataError
from regard.models.build import build_translator
from regard.models.seq2seq import Seq2Seq
from regard.text.batching import BucketBatchSampler
from regard.text.prepare import PreparedData, prepare
from regard.training.callbacks import Checkpointing, Display, Validation
from regard.training.data import UpdateLoader
from regard.training.folder import RunFolder
from regard.training.logs import Logs
from regard.training.machine import Machine, prepared, resolve_machine, seed_step
from regard.training.module import TrainingModule
from regard.training.optimizer import mean_weights
from regard.training.progress import Reporter, build_reporter
from regard.training.run import Run
from regard.training.signals import Signals
from regard.training.validation import Validator

if TYPE_CHECKING:
    from regard.predict import Translator

Model = Seq2Seq | Callable[[int, int], Seq2Seq]


def fit(
    config: TranslationConfig, *, model: Model | None = None, attention: Attention | None = None, progress: bool = True
) -> "Translator":
    """Train a translator.

    Args:
        config: The run. `out` names its folder, `runs/` and the training file's name if empty.
        model: A model of your own in place of the configured one, or a function of the two vocabulary sizes that makes it.
        attention: A mechanism of your own, put into the configured decoder: an object, with queries as wide as the decoder
            (`model.decoder.hidden_size`) and keys as wide as the encoder's states (`model.encoder.states_size`).
        progress: Whether to report on standard error.

    Returns:
        The translator, which is also kept in the run's folder.

    Raises:
        ConfigError: If a setting is wrong or the folder is taken. Nothing has been written then.
        DataError: If the data cannot be read. Nothing has been written then.
        TrainingError: If the loss is not finite, or the disk is full. The last checkpoint is kept.
        Interrupted: If Ctrl-C or SIGTERM stopped the run. A checkpoint is kept.
    """
    check_config(config)
    _check_training(config, model, attention)
    config = replace(config, out=config.out or _default_out(config))
    folder, machine, reporter = RunFolder(config.out), resolve_machine(config), build_reporter(progress=progress)
    folder.check_free(overwrite=config.overwrite)
    config = replace(config, overwrite=False)  # it was asked for once: a run from the kept settings must ask again
    with prepared(machine):
        data = prepare(config.data, config.tokenizers, seed=config.seed, progress=progress)
        config = replace(config, tokenizers=data.tokenizers)
        run, sampler = _build_run(config, folder, machine, data, model, attention)
        reporter.say(data.report.render())
        facts = {"regard": __version__, "fingerprint": data.fingerprint, "custom": run.custom, **machine.to_dict()}
        folder.start(config, facts)
        return _train(run, sampler, reporter)


def resume(
    folder: str | Path, *, model: Model | None = None, attention: Attention | None = None, progress: bool = True
) -> "Translator":
    """Go on with a run exactly where it stopped: on the same machine it ends with the same bits as one never stopped.

    Args:
        folder: The run's folder.
        model: The model given to `fit`, made anew, if one was given.
        attention: The mechanism given to `fit`, if one was given.
        progress: Whether to report on standard error.

    Returns:
        The translator, which is also kept in the run's folder.

    Raises:
        ConfigError: If the folder holds no run, or a model of one's own is needed.
        DataError: If the data have changed.
        BundleError: If the checkpoint is damaged.
        TrainingError: As `fit`.
        Interrupted: As `fit`.
    """
    place = RunFolder(folder)
    config, facts = place.read_start()
    for name, given in (("model", model), ("attention", attention)):
        if (facts["custom"] == name) != (given is not None):
            needed = f"was given a {name} of its own; resume it from Python: regard.resume('{folder}', {name}=…)"
            raise ConfigError(f"the run in '{folder}' {needed if given is None else f'was given no {name} of its own'}")
    config = replace(config, out=str(folder))
    machine, reporter = resolve_machine(config), build_reporter(progress=progress)
    with prepared(machine):
        data = prepare(config.data, config.tokenizers, seed=config.seed, progress=progress)
        if data.fingerprint != facts["fingerprint"]:
            raise DataError(
                f"cannot resume '{folder}': {' or '.join(config.data.train)} has changed since the run began; "
                "put the old file back, or train anew"
            )
        run, sampler = _build_run(config, place, machine, data, model, attention)
        state = place.load_checkpoint()
        if state is not None:
            run.load_state_dict(state)
        reporter.say(_describe_resume(run, facts))
        return _train(run, sampler, reporter)


def _check_training(config: TranslationConfig, model: Model | None, attention: Attention | None) -> None:
    training = config.training
    if not config.data.train:
        raise ConfigError("data.train is empty; name a file of sentence pairs to learn from")
    if model is not None and attention is not None:
        raise ConfigError("fit was given a model and an attention; put the attention into the model, and give that alone")
    if attention is not None and not isinstance(attention, Attention):
        sizes = f"query_size={config.model.decoder.hidden_size}, key_size={config.model.encoder.states_size}"
        raise ConfigError(
            f"attention is {attention!r:.80}, expected an object of a regard.attention.Attention class, made for the decoder's "
            f"queries and the encoder's keys: {sizes}"
        )
    if training.monitor != "loss" and not training.validation_pairs:
        raise ConfigError(
            f"training.monitor is '{training.monitor}', which is computed on training.validation_pairs pairs, and that is 0; "
            "set it to more, or monitor the loss"
        )


def _default_out(config: TranslationConfig) -> str:
    return str(Path("runs", Path(config.data.train[0]).name.partition(".")[0] or "run"))


def _build_run(
    config: TranslationConfig,
    folder: RunFolder,
    machine: Machine,
    data: PreparedData,
    model: Model | None,
    attention: Attention | None,
) -> tuple[Run, BucketBatchSampler]:
    seed_step(config.seed, 0)
    sampler = BucketBatchSampler(
        data.train.source_lengths,
        data.train.target_lengths,
        batch_tokens=config.training.batch_tokens,
        batch_sentences=config.training.batch_sentences,
        seed=config.seed,
    )
    built = _build_model(config, data, model, attention)
    custom: Custom = "model" if model is not None else "attention" if attention is not None else ""
    run = Run(config, folder=folder, machine=machine, data=data, model=built, custom=custom, epoch_batches=len(sampler))
    return run, sampler


def _build_model(config: TranslationConfig, data: PreparedData, model: Model | None, attention: Attention | None) -> Seq2Seq:
    source_size, target_size = data.source_tokenizer.size, data.target_tokenizer.size
    if model is None:
        try:
            return build_translator(config.model, source_size=source_size, target_size=target_size, attention=attention)
        except RuntimeError as error:
            if "alloc" not in str(error):
                raise
            raise ConfigError(
                f"the model does not fit into memory, with vocabularies of {source_size:,} and {target_size:,} symbols; "
                "lower the sizes under model, or set tokenizers.source.max_size and tokenizers.target.max_size"
            ) from error
    made = model if isinstance(model, Seq2Seq) else model(source_size, target_size)
    if not isinstance(made, Seq2Seq):
        raise ConfigError(
            f"model is a {type(made).__name__}, expected a regard.models.seq2seq.Seq2Seq, or a function of the two "
            "vocabulary sizes that makes one"
        )
    words = made.output_weight()[0].shape[0]
    if words != target_size:
        raise ConfigError(
            f"model predicts {words:,} words, but the target vocabulary has {target_size:,}; give fit a function "
            "of the two vocabulary sizes that makes the model"
        )
    return made


def _train(run: Run, sampler: BucketBatchSampler, reporter: Reporter) -> "Translator":
    training = run.config.training
    validator = _build_validator(run)
    module = TrainingModule(run)
    module.train()
    loader = UpdateLoader(run.data.train, sampler, training.accumulate, run.progress)
    logs = Logs(run.folder.logs, run.history, tensorboard=training.tensorboard)
    try:
        with Signals() as signals, _quiet():
            callbacks = [
                Validation(run, validator, signals, reporter, logs, lambda scores: _save(run, scores)),
                Checkpointing(run, signals),
                Display(run, reporter),
            ]
            _build_trainer(run, callbacks).fit(module, train_dataloaders=loader)
    finally:
        reporter.stop()
        logs.close()
    scores = _finish(run, validator)
    reporter.say(_describe_end(run, scores))
    from regard.predict import Translator

    return Translator(_bundle(run, scores))


def _build_validator(run: Run) -> Validator | None:
    config = run.config
    if not len(run.data.dev):
        return None
    return Validator(
        run.data.dev,
        run.data.target_tokenizer,
        config.decoding,
        run.machine,
        num_translated=config.training.validation_pairs,
        batch_tokens=config.training.batch_tokens,
    )


def _build_trainer(run: Run, callbacks: list[lightning.Callback]) -> lightning.Trainer:
    device = run.machine.device
    return lightning.Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index] if device.type == "cuda" else 1,
        max_epochs=-1,  # a run knows its own end
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=str(run.folder.logs),
    )


def _finish(run: Run, validator: Validator | None) -> dict[str, Any]:
    """Make the final model of the kept weights, and write it with its scores."""
    steps = run.final_steps()
    weights = [run.folder.load_weights(step) for step in steps]
    scores = run.progress.scores[steps[-1]]
    if len(weights) == 1:
        run.model.load_state_dict(weights[0])
    else:
        run.model.load_state_dict(mean_weights(weights))
        scores = validator.validate(run.model).to_dict() if validator is not None else {}
    run.model.eval()
    _save(run, scores)
    return scores


def _save(run: Run, scores: dict[str, Any]) -> None:
    save_bundle(run.folder.path, _bundle(run, scores))


def _bundle(run: Run, scores: dict[str, Any]) -> Bundle:
    return Bundle(
        config=run.config,
        model=run.model,
        source_tokenizer=run.data.source_tokenizer,
        target_tokenizer=run.data.target_tokenizer,
        signature={
            "seed": run.config.seed,
            "data": run.data.fingerprint,
            "updates": run.progress.step,
            "scores": scores,
        },
        report=run.data.report.to_dict(),
        custom=run.custom,
    )


def _describe_resume(run: Run, facts: dict[str, Any]) -> str:
    head = f"going on with {run.folder.path} after update {run.progress.step:,} of {run.total_steps:,}"
    if run.progress.finished:
        head = f"the run in {run.folder.path} has ended; writing its model again"
    here = run.machine.to_dict()
    changed = [f"{name} was {facts[name]} and is {here[name]}" for name in here if facts.get(name) != here[name]]
    return head + (f"\n  not bit for bit as it would have gone on: {', '.join(changed)}" if changed else "")


def _describe_end(run: Run, scores: dict[str, Any]) -> str:
    progress = run.progress
    epochs = progress.step / run.epoch_steps
    speed = progress.tokens / progress.seconds if progress.seconds else 0.0
    lines = [
        f"trained {epochs:,.4g} epoch{'s' * (epochs != 1)} ({progress.step:,} updates) in {_seconds(progress.seconds)} s, "
        f"validation and writing {_seconds(progress.validation_seconds)} s more; {speed:,.0f} target tokens/s"
    ]
    if scores:
        mean = f"the mean of the last {len(run.final_steps())} validations' weights"
        what = mean if len(run.final_steps()) > 1 else f"the model after update {run.final_steps()[0]:,}"
        bleu = f", BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}" if scores["translated_pairs"] else ""
        lines.append(f"kept {what}; on dev: loss {scores['loss']:.3f}{bleu}")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning's banners, tips and advice about its own settings to itself."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning(\.|$)")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
