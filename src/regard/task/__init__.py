"""The interface of a task. Training, bundles, settings and the command line use tasks only through it.

A `Task` consists of parts, each a small class in its own module: settings (`SettingsTable`), training (`Training`, `Trainable`,
`Validator`), files (`BundleFormat`) and operations (`TextOperation`, `FileOperation`). `regard.tasks` has the five built-in
tasks; the page "A task of your own" shows another. Nothing in this package imports torch.
"""

from regard.task.bundle import Bundle, BundleFiles, BundleFormat, Card, Counts, Custom, Inventory
from regard.task.interface import Task, TaskWords, all_tasks, find_task, part
from regard.task.operation import (
    AttentionOperation,
    CompareOperation,
    Evaluate,
    FileOperation,
    Files,
    LineOperation,
    Lines,
    Look,
    Operation,
    Result,
    Sites,
    Text,
    TextOperation,
)
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.task.training import Data, Examples, Scores, Trainable, Training, Validator
