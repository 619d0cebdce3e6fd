"""Train a model from a configuration, and resume a stopped run.

A run goes through this module from top to bottom: settings (`fit`, `resume`), data and model (`_prepare`), the loop over
updates (`_train`), and the final model (`_finish`). Between the updates, callbacks validate, log, and write checkpoints.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from regard.bundle import StartFiles, read_start, save_bundle
from regard.config import RunConfig
from regard.config.loading import check_config, dump_config, render_config
from regard.errors import BundleError, ConfigError, DataError, TrainingError, out_of_memory
from regard.machine import Machine, prepared, resolve_machine
from regard.processes.rendezvous import joined
from regard.processes.signals import AgreedSignals, Signals
from regard.processes.team import Team
from regard.task import Trainable, Validator, find_task
from regard.training.callbacks import Checkpointing, Display, EarlyStopping, Logging, Validation
from regard.training.changing import change_config, check_goes_on, describe_change, make_change
from regard.training.data import UpdateLoader
from regard.training.facts import collect_facts, symbols_of
from regard.training.folder import RunFolder
from regard.training.freezing import freeze, unfreeze
from regard.training.messages import describe_beginning, describe_end, describe_resume, idle_without_dev
from regard.training.optimizer import mean_weights
from regard.training.progress import Reporter, build_reporter
from regard.training.run import Callback, Run
from regard.training.schedule import Change
from regard.training.scoring import score_by_folds
from regard.training.starting import check_start, with_start
from regard.training.updater import Updater
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
    """Train a model for the task of its configuration: a translator, a classifier or a language model.

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
    overwrite, config = (
        config.overwrite,
        replace(config, overwrite=False),
    )  # a new run from the saved settings must set it again
    folder.check_free(overwrite=overwrite)
    start = StartFiles.unpack(team.by_first(lambda: read_start(config.start_from).pack())) if config.start_from else None
    if start is not None:
        check_start(config, start, model, attention)
    if config.chosen:
        chosen = "\n  ".join(config.chosen)
        reporter.say(f"settings chosen from the data (you can set any of them, or name a preset):\n  {chosen}")
    elif model is None and start is None and _is_plain(config):
        reporter.say(
            "the model and the training use default settings, which are not chosen for these data; "
            f"regard.choose_config('{config.task}', …) chooses settings from the data"
        )
    with prepared(machine, deterministic=config.training.deterministic):
        task = _prepare(config, team, model, attention, start, progress=progress)
        reporter.say("\n".join([task.data.report.render(), *describe_beginning(task, start)]))
        if team.ranks.alone and model is None and attention is None:  # the user's own object can be trained only once
            task.estimated = score_by_folds(task, lambda own: _fit(own, team, None, None, (), progress=False), reporter)
        with folder.held():
            folder.check_free(overwrite=overwrite)  # another run may have used the folder while the data were prepared
            folder.start(collect_facts(task.config, task, machine), start.pack() if start else None)
            return _train(_build_run(task, folder, machine, callbacks), reporter)


def _is_plain(config: RunConfig) -> bool:
    """Return True if the model and the training have only default settings."""
    plain = type(config)()
    return config.model == plain.model and config.training == plain.training


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
    place: RunFolder,
    model: Any,
    attention: Any,
    callbacks: Sequence[Callback],
    overrides: Mapping[str, Any],
    *,
    progress: bool,
) -> Any:
    """Resume a run whose folder is locked."""
    folder, team = place.path, place.team
    old, facts = place.read_start()
    kept, names = change_config(old, overrides, folder) if overrides else (old, [])
    for name, given in (("model", model), ("attention", attention)):
        if (facts.get("custom") == name) != (given is not None):
            needed = f"was started with your own {name}; resume it from Python: regard.resume('{folder}', {name}=…)"
            raise ConfigError(f"the run in '{folder}' {needed if given is None else f'was started without your own {name}'}")
    config = replace(kept, out=str(folder))
    machine, reporter = _resolve_machine(config, team), build_reporter(progress=progress and team.first)
    start = StartFiles.unpack(place.load_start()) if facts.get("started_from") else None
    with prepared(machine, deterministic=config.training.deterministic):
        task = _prepare(config, team, model, attention, start, progress=progress)
        _check_unchanged(task, facts, folder)
        run = _build_run(task, place, machine, callbacks)
        state, damage = place.load_checkpoint()
        if damage:
            reporter.say(f"going back to the checkpoint before the last: {damage}")
        if state is not None:
            run.load_state_dict(state)
        change = Change(**facts["change"]) if facts.get("change") else None
        if names:
            made, finished = make_change(run, old, change, names), run.progress.finished
            run.apply(made)
            check_goes_on(run, finished, names, folder)
            place.write_facts({**facts, "settings": dump_config(kept), "change": asdict(made)})
            reporter.say(describe_change(run, made, old, names))
        elif change is not None:
            run.apply(change)
        reporter.say(describe_resume(run, facts))
        return _train(run, reporter)


def _check_unchanged(task: Trainable, facts: Mapping[str, Any], folder: Path) -> None:
    """Check that data and vocabulary are those of the run's start, and restore the scores that were estimated then.

    Raises:
        BundleError: If the scores are not those of the task.
        DataError: If the data or the vocabulary have changed.
    """
    if task.data.fingerprint != facts.get("fingerprint"):
        sources = " or ".join((*task.config.data.train, *task.teachers))
        raise DataError(
            f"cannot resume '{folder}': {sources} has changed since the run began; put the old file back, or start a new run"
        )
    if symbols_of(task.data.train) != facts.get("symbols"):
        raise DataError(
            f"cannot resume '{folder}': preparing its data again gave another vocabulary than at the start of the run, "
            f"with tokenizers {facts.get('tokenizers')} and regard {facts.get('regard')}; install these "
            "versions again, or start a new run"
        )
    task.estimated = facts.get("estimated") or {}
    try:
        if task.estimated:
            task.describe_scores(dict(task.estimated))
            task.warn(dict(task.estimated))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BundleError(
            f"cannot resume '{folder}': checkpoints/run.json does not hold the scores of a run ({error}); restore an intact "
            "copy of the file, or start a new run"
        ) from error


def _resolve_machine(config: RunConfig, team: Team) -> Machine:
    """Resolve the machine's settings, and check that `auto` means the same number format in every process."""
    machine = resolve_machine(config, team.ranks)
    team.check_alike({"training.precision": machine.precision}, advice="set --training.precision to one that all support")
    return machine


def _prepare(
    config: RunConfig, team: Team, model: Any, attention: Any, start: StartFiles | None, *, progress: bool
) -> Trainable:
    """Prepare the data and build the model, the same in every process."""
    progress = progress and team.first
    training = find_task(config.task).training
    task = team.in_turns(lambda: training.prepare(config, model=model, attention=attention, start=start, progress=progress))
    task.started_from = start.origin if start else {}
    task.frozen = freeze(task.model, config.model.freeze)
    versions = {"regard": __version__, "torch": torch.__version__, "data": task.data.fingerprint}
    team.check_alike(versions | {"settings": render_config(replace(config, threads=0, out=""))})
    team.align(task.model)
    return task


def _build_run(task: Trainable, folder: RunFolder, machine: Machine, callbacks: Sequence[Callback]) -> Run:
    return Run(task, folder=folder, machine=machine, sampler=task.sampler(), callbacks=callbacks)


def _train(run: Run, reporter: Reporter) -> Any:
    """Make updates until the run has finished, and return the predictor with the final model."""
    task, team, run.say = run.task, run.team, reporter.say
    validator = task.validator(run.machine)
    if validator is None and (idle := idle_without_dev(task.config)):
        reporter.say(
            f"nothing is held out to validate on (data.dev, data.dev_size), so {' and '.join(idle)} "
            f"{'have' if len(idle) > 1 else 'has'} no effect"
        )
    run.model.train()
    try:
        with Signals() as noted, _memory_explained(), torch.enable_grad():
            updater = Updater(run)
            signals = noted if team.ranks.alone else AgreedSignals(noted, team)
            with Logging(run, updater) as logging:
                after = [logging, EarlyStopping(), *run.callbacks]
                callbacks = [
                    Validation(run, updater, validator, signals, reporter, lambda scores: _save(run, scores), after),
                    *after,
                    Checkpointing(run, updater, signals),
                    Display(reporter),
                ]
                _agree(run, signals)
                for callback in callbacks:
                    callback.start(run)
                while not run.progress.finished:
                    for update in UpdateLoader(task, run.sampler, run.progress, team.ranks):  # one epoch, or the rest of it
                        updater.make(update)
                        if run.settles_at(run.progress.step):
                            _agree(run, signals)
                        for callback in callbacks:
                            callback.after_update(run)
                        if run.progress.finished:
                            break
            run.optimizer.zero_grad()
    finally:
        reporter.stop()
        unfreeze(task.frozen)
    scores = _finish(run, validator)
    reporter.say(describe_end(run, scores))
    for callback in run.callbacks:
        callback.end(run)
    return find_task(run.config.task).predictor(task.bundle(_signature(run, scores)))


def _agree(run: Run, signals: Signals) -> None:
    """Let all processes agree on signals and on whether the time limit is reached."""
    progress = run.progress
    # By the clock of another process, the time limit may be reached although it is not by the clock of this one.
    if isinstance(signals, AgreedSignals) and signals.agree(finished=progress.finished) and not progress.finished:
        progress.finished = progress.validation_due = True


def _finish(run: Run, validator: Validator | None) -> dict[str, Any]:
    """Build the final model from the stored weights, and write it with its scores."""
    steps = run.final_steps()
    weights = [run.load_weights(step) for step in steps]
    scores = run.progress.scores.get(steps[-1], {})
    if len(weights) == 1:
        run.model.load_state_dict(weights[0])
    else:
        run.model.load_state_dict(mean_weights(weights))
        scores = run.team.by_first(lambda: validator.validate(run.model).to_dict() if validator is not None else {})
    run.model.eval()
    _save(run, scores)
    return scores


def _save(run: Run, scores: dict[str, Any]) -> None:
    run.team.by_first(lambda: save_bundle(run.folder.path, run.task.bundle(_signature(run, scores))))


def _signature(run: Run, scores: dict[str, Any]) -> dict[str, Any]:
    return {
        "seed": run.config.seed,
        "data": run.task.data.fingerprint,
        "updates": run.progress.step,
        "epochs": round(run.progress.step / run.epoch_steps, 4),
        "kept": run.final_steps(),
        "finished": run.progress.finished,
        "scores": scores or dict(run.task.estimated),
        **({"started_from": dict(run.task.started_from)} if run.task.started_from else {}),
    }


@contextmanager
def _memory_explained() -> Iterator[None]:
    """Raise an error that names settings to lower if memory is short in an unsplit computation, such as validation."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingError(
            "there is not enough memory; lower training.batch_tokens or the sizes under model, and start a new run. If it ran "
            "out while dev pairs were translated, lower decoding.batch_tokens and resume. The last checkpoint is kept"
        ) from error
