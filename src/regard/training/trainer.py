"""Train a model from a configuration, and resume a stopped run.

A run goes through this module from top to bottom: settings (`fit`, `resume`), data and model (`_prepare`), the loop over
updates (`_train`), and the final model (`_finish`). Between the updates, callbacks validate, log, and write checkpoints.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.bundle import StartFiles, read_start
from regard.config import RunConfig, TrainingConfig
from regard.config.loading import check_config, dump_config, render_config
from regard.errors import BundleError, ConfigError, DataError, Interrupted, TrainingError, missing_operation, out_of_memory
from regard.layers.consistency import Consistency, reading_twice
from regard.layers.transformer import running_layers
from regard.machine import Machine, prepared, resolve_machine
from regard.processes.team import Team, joined
from regard.task import Trainable, find_task
from regard.training import messages
from regard.training.callbacks import Checkpointing, Logging, Validation, write_bundle
from regard.training.folder import RunFolder
from regard.training.freezing import freeze, unfreeze
from regard.training.optimizer import mean_weights
from regard.training.progress import Reporter, SeveralRuns, build_reporter
from regard.training.run import Callback, Run
from regard.training.starting import change_config, check_change, check_start, describe_change, with_start
from regard.training.trackers import check_trackers
from regard.training.updater import Updater, load_updates
from regard.version import __version__


def fit(
    config: RunConfig | Mapping[str, Any],
    *,
    model: Any = None,
    attention: Any = None,
    start_from: str | Path = "",
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> Any:
    """Train a model for the task of its configuration: a translator, a classifier, a language model, a captioner or a tagger.

    Args:
        config: Configuration of the run. `out` is its folder; if empty, `runs/` and the name of the training file. With
            `start_from`, a mapping of settings by dotted names is enough: `{"data.train": ["new.tsv"], "out": "runs/new"}`.
        model: Your own model instead of the configured one, or a function that builds it. Arguments of the function are the two
            vocabulary sizes for a translator, the vocabulary size and the number of labels for a classifier, or the vocabulary
            size for a language model.
        attention: Your own mechanism, as an object. For a translator, an `Attention` for the configured decoder, whose queries
            have the width of the decoder (`model.decoder.hidden_size`) and whose keys have the width of the encoder's states
            (`model.encoder.states_size`); for a classifier, a pooling of its states.
        start_from: Folder of a trained model. Training starts from its weights and uses its vocabulary.
        callbacks: Your own actions after updates and validations, such as another log or another rule for stopping; see
            `regard.training.Callback`.
        progress: Whether to report progress, on standard error or, in a notebook, on standard output.

    Returns:
        A `Translator`, a `Classifier` or a `LanguageModel`. The model is also saved in the run's folder.

    Raises:
        BundleError: If `start_from` is not a trained model.
        ConfigError: If a setting is wrong or the folder is already used. Nothing has been written to the folder then.
        DataError: If the data cannot be read. Nothing has been written to the folder then.
        TrainingError: If losses are not finite, the disk is full, there is not enough memory, or another process of the run has
            ended. The last checkpoint is kept.
        Interrupted: If Ctrl-C or SIGTERM stopped the run. A checkpoint is kept if training of the final model had started.
    """
    config = with_start(config, start_from)
    check_config(config)
    if model is not None and attention is not None:
        raise ConfigError("fit was given a model and an attention; put the attention into the model, and give only the model")
    find_task(config.task).training.check(config, model, attention)
    config = replace(config, out=config.out or str(Path("runs", Path(config.data.train[0]).name.partition(".")[0] or "run")))
    with joined() as team:
        return _fit(config, team, model, attention, callbacks, progress)


def _fit(config: RunConfig, team: Team, model: Any, attention: Any, callbacks: Sequence[Callback], progress: bool) -> Any:
    """Train in one of the processes of a team."""
    folder, machine = RunFolder(config.out, team), _resolve_machine(config, team)
    reporter = build_reporter(progress=progress and team.first)
    overwrite, config = config.overwrite, replace(config, overwrite=False)  # the saved settings must not overwrite this run
    folder.check_free(overwrite=overwrite)
    start = StartFiles.unpack(team.broadcast(lambda: read_start(config.start_from).pack())) if config.start_from else None
    if start is not None:
        check_start(config, start, model, attention)
    if config.chosen:
        chosen = "\n  ".join(config.chosen)
        reporter.say(f"settings chosen from the data (you can set any of them, or name a preset):\n  {chosen}")
    elif model is None and start is None and (config.model, config.training) == (type(config)().model, type(config)().training):
        advice = f"regard.choose_config('{config.task}', …) chooses settings from the data"
        if find_task(config.task).settings_table is None:
            advice = "set training.max_epochs and the sizes of the model for them"
        reporter.say(f"the model and the training use default settings, which are not chosen for these data; {advice}")
    with prepared(machine, deterministic=config.training.deterministic):
        task = _prepare(config, team, model, attention, start, progress=progress)
        reporter.say(messages.describe_beginning(task, start))
        if team.ranks.alone and model is None and attention is None:  # the user's own object can be trained only once
            task.estimated = _estimate_scores(task, team, reporter)
        _check_training(task)
        with folder.held():
            folder.check_free(overwrite=overwrite)  # another run may have used the folder while the data were prepared
            facts = {
                "settings": dump_config(task.config),
                "fingerprint": task.data.fingerprint,  # the data and the vocabulary must be the same when the run is resumed
                "vocabulary": _vocabulary(task),
                "custom": task.custom,  # the user's own object must be given again
                "started_from": dict(task.started_from),
                "estimated": dict(task.estimated),
                "environment": messages.describe_environment(machine),  # a difference is only reported
            }
            folder.start(facts, start.pack() if start else None)
            return _train(Run(task, folder=folder, machine=machine, callbacks=callbacks, say=reporter.say), reporter)


def _check_training(task: Trainable) -> None:
    """Raise an error, before anything is written, if the task or the model cannot be trained as the settings say."""
    training, defaults = task.config.training, TrainingConfig()
    for name in ("consistency", "bpe_dropout"):
        if getattr(training, name) != getattr(defaults, name) and name not in task.follows:
            raise ConfigError(f"training.{name} has no effect in the task '{task.config.task}'; leave it out")
    consistency = Consistency.of(training.consistency)
    layers = running_layers(task.model, compiled=training.compile_layers, recomputed=training.recompute_layers)
    with layers, reading_twice(task.model, consistency) if consistency else nullcontext():
        pass


def _estimate_scores(task: Trainable, team: Team, reporter: Reporter) -> dict[str, Any]:
    """Train a model for each run of `task.scoring_runs`, and combine their scores for the signature; the models are discarded.

    There are no scores without such runs, or if one of them cannot be trained.

    Raises:
        Interrupted: If a signal stopped the cross-validation; nothing has been written then.
    """
    runs = task.scoring_runs()
    if not runs:
        return {}
    reporter.say(
        f"estimating the scores by cross-validation: {len(runs)} models, each scored on texts that were held out of its "
        "training (training.score_folds 0 skips this)"
    )
    # A fold has all texts but one part, so the final model takes len(runs) / (len(runs) − 1) times as long as a fold's.
    scores, times = [], SeveralRuns(reporter.say, len(runs), further=len(runs) / max(len(runs) - 1, 1))
    with tempfile.TemporaryDirectory(prefix="regard-folds-") as folder:
        for number, config in enumerate(runs, 1):
            own = replace(config, out=str(Path(folder, str(number))), chosen=())
            try:
                scores.append(_fit(own, team, None, None, (times,), progress=False).bundle.signature["scores"])
            except Interrupted as error:
                raise Interrupted(
                    f"stopped during the cross-validation, before training began; nothing was written to {task.config.out}",
                    signal_number=error.exit_code - 128,
                ) from error
            except (ConfigError, DataError) as error:
                reporter.say(f"no scores: fold {number} cannot be trained: {error}")
                return {}
            reporter.say(f"  trained and scored model {number} of {len(runs)}")
    return task.pool_scores(scores)


def resume(
    folder: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    model: Any = None,
    attention: Any = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> Any:
    """Resume a run from its last checkpoint.

    On the same machine, with the same versions and settings, the result has the same bits as that of an uninterrupted run.

    Args:
        folder: The run's folder.
        overrides: Settings to change, by dotted names: `{"training.max_epochs": 20}` trains a run longer, even if it has ended.
            The folder stores the new settings. The length, the learning rate and its schedule, regularization, decoding and the
            device may change; data, batches and the model must not.
        model: Your own model, built again as for `fit`; None if `fit` was given none.
        attention: Your own mechanism, built again as for `fit`; None if `fit` was given none.
        callbacks: Your own callbacks, as for `fit`; their state is restored.
        progress: Whether to report progress, on standard error or, in a notebook, on standard output.

    Returns:
        A `Translator`, a `Classifier` or a `LanguageModel`. The model is also saved in the run's folder.

    Raises:
        ConfigError: If the folder contains no run or another process writes to it, the model or attention given to `fit` is
            missing, or a setting must not change.
        DataError: If the data have changed, or preparing them again gave another vocabulary.
        BundleError: If all checkpoints, or other files of the run, are damaged.
        TrainingError: As for `fit`.
        Interrupted: As for `fit`.
    """
    with joined() as team:
        place = RunFolder(folder, team)
        place.check_begun()
        with place.held():
            return _resume(place, model, attention, callbacks, overrides or {}, progress=progress)


def _resume(
    folder: RunFolder,
    model: Any,
    attention: Any,
    callbacks: Sequence[Callback],
    overrides: Mapping[str, Any],
    *,
    progress: bool,
) -> Any:
    """Resume a run whose folder is locked."""
    path, team = folder.path, folder.team
    old, facts = folder.read_start()
    kept, changed = change_config(old, overrides, path) if overrides else (old, [])
    for name, value in (("model", model), ("attention", attention)):
        if (facts["custom"] == name) != (value is not None):
            needed = f"was started with your own {name}; resume it from Python: regard.resume('{path}', {name}=…)"
            raise ConfigError(f"the run in '{path}' {needed if value is None else f'was started without your own {name}'}")
    config = replace(kept, out=str(path))
    machine, reporter = _resolve_machine(config, team), build_reporter(progress=progress and team.first)
    start = StartFiles.unpack(folder.load_start()) if facts["started_from"] else None
    with prepared(machine, deterministic=config.training.deterministic):
        task = _prepare(config, team, model, attention, start, progress=progress)
        _check_unchanged(task, facts, path)
        run = Run(task, folder=folder, machine=machine, callbacks=callbacks, say=reporter.say)
        state, damage = folder.load_checkpoint()
        if damage:
            reporter.say(f"going back to the checkpoint before the last: {damage}")
        if state is not None:
            run.load_state_dict(state)
        _check_scores(run)
        if changed:
            find_task(config.task).training.check(config, model, attention)
            _check_training(task)
            check_change(run, changed)
            folder.write_facts({**facts, "settings": dump_config(kept)})
            reporter.say(describe_change(old, kept, changed))
        reporter.say(messages.describe_resume(run, facts["environment"]))
        return _train(run, reporter)


def _check_unchanged(task: Trainable, facts: Mapping[str, Any], folder: Path) -> None:
    """Check that data and vocabulary are those of the run's start, and restore the scores that were estimated then.

    Raises:
        DataError: If the data or the vocabulary have changed.
    """
    if task.data.fingerprint != facts["fingerprint"]:
        data = task.config.data
        sources = " or ".join(filter(None, (*data.train, *data.dev, getattr(data, "alignments", ""), *task.teachers)))
        raise DataError(
            f"cannot resume '{folder}': {sources} has changed since the run began; put the old file back, or start a new run"
        )
    if _vocabulary(task) != facts["vocabulary"]:
        versions = facts["environment"]
        raise DataError(
            f"cannot resume '{folder}': preparing its data again gave another vocabulary than at the start of the run, "
            f"with tokenizers {versions.get('tokenizers')} and regard {versions.get('regard')}; install these "
            "versions again, or start a new run"
        )
    task.estimated = facts["estimated"]


def _check_scores(run: Run) -> None:
    """Check that the scores of a resumed run can be described at its end, before hours of training.

    Raises:
        BundleError: If another version of the task wrote them.
    """
    for name, found in (("run.json", [run.task.estimated]), ("last.ckpt", run.progress.scores.values())):
        try:
            for scores in filter(None, found):
                run.task.describe_scores(dict(scores))
                run.task.warn(dict(scores))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BundleError(
                f"cannot resume '{run.folder.path}': the scores in checkpoints/{name} are not those that this version of the "
                f"task computes ({error!r}); resume the run with the version that wrote it, or start a new run"
            ) from error


def _vocabulary(task: Trainable) -> str:
    """Return the hash of the vocabulary that the task stored in its model (see `Training.prepare`)."""
    return str(getattr(task.model, "vocabulary", ""))


def _resolve_machine(config: RunConfig, team: Team) -> Machine:
    """Resolve the machine's settings, and check that `auto` means the same number format in every process."""
    machine = resolve_machine(config, team.ranks)
    team.check_equal({"training.precision": machine.precision}, advice="set --training.precision to one that all support")
    return machine


def _prepare(
    config: RunConfig, team: Team, model: Any, attention: Any, start: StartFiles | None, *, progress: bool
) -> Trainable:
    """Prepare the data and build the model, the same in every process."""
    check_trackers(config.training.track)
    progress = progress and team.first
    training = find_task(config.task).training
    # The first process of a host writes the prepared data to the cache, and the others only read it.
    task = team.main_process_first(
        lambda: training.prepare(config, model=model, attention=attention, start=start, progress=progress)
    )
    task.started_from = start.origin if start else {}
    task.frozen = freeze(task.model, config.model.freeze)
    # With other versions or settings, gradients would be averaged over different models. Folder and threads may differ.
    versions = {"regard": __version__, "torch": str(torch.__version__), "data": task.data.fingerprint}
    team.check_equal(versions | {"settings": render_config(replace(config, threads=0, out=""))})
    team.copy_weights(task.model)  # initial weights can differ in the last bits between processors
    return task


def _train(run: Run, reporter: Reporter) -> Any:
    """Make updates until the run has finished, and return the predictor with the final model."""
    task, progress = run.task, run.progress
    validator = task.validator(run.machine)
    if validator is None and (missing := messages.describe_missing_dev(run)):
        reporter.say(missing)
    validation, logging, checkpointing = Validation(validator, reporter), Logging(), Checkpointing()
    run.active = [validation, logging, *run.callbacks, checkpointing, reporter]
    run.model.train()
    try:
        training = run.config.training
        layers = running_layers(run.model, compiled=training.compile_layers, recomputed=training.recompute_layers)
        with run.signals, _explaining_memory(), torch.enable_grad(), layers:
            updater = Updater(run)
            run.collect_losses = updater.collect_losses
            logging.open(run)
            _agree(run)
            # The user's callbacks start before an interrupted validation is repeated, because it calls them.
            for callback in (*run.callbacks, validation, checkpointing, reporter):
                callback.start(run)
            while not progress.finished:
                for update in load_updates(run):  # one epoch, or the rest of it
                    updater.make(update)
                    if run.collects_losses_at(progress.step):
                        _agree(run)
                    for callback in run.active:
                        callback.after_update(run)
                    if progress.finished:
                        break
        run.optimizer.zero_grad()
    finally:
        logging.close()
        reporter.stop()
        unfreeze(task.frozen)
    scores = _finish(run, validator)
    reporter.say(messages.describe_end(run, scores))
    for callback in run.callbacks:
        callback.end(run)
    return find_task(run.config.task).predictor(task.bundle(run.signature(scores)))


def _agree(run: Run) -> None:
    """Let all processes agree on signals and on whether the time limit is reached."""
    progress = run.progress
    # By the clock of another process, the time limit may be reached although it is not by the clock of this one.
    if run.signals.agree(finished=progress.finished) and not progress.finished:
        progress.finished = progress.validation_due = True


@contextmanager
def _explaining_memory() -> Iterator[None]:
    """Raise an error that names settings to lower if memory is short where nothing can be split, as in a validation."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if missing := missing_operation(error):
            raise TrainingError(missing) from error
        if not out_of_memory(error):
            raise
        raise TrainingError(
            "there is not enough memory; lower training.batch_tokens or the sizes under model, and start a new run. If it ran "
            "out while dev pairs were translated, lower decoding.batch_tokens and resume. The last checkpoint is kept"
        ) from error


def _finish(run: Run, validator: Any) -> dict[str, Any]:
    """Build the final model from the stored weights, and write it with its scores."""
    steps = run.final_steps()
    weights = [run.load_weights(step) for step in steps]
    scores = run.progress.scores.get(steps[-1], {})
    if len(weights) == 1:
        run.model.load_state_dict(weights[0])
    else:
        run.model.load_state_dict(mean_weights(weights))
        scores = run.team.broadcast(lambda: validator.validate().to_dict() if validator is not None else {})
    run.model.eval()
    write_bundle(run, scores)
    return scores
