"""Settings for a tagger: those of the preset for its kind of model, with advice for few sentences."""

from regard.choose.choice import describe_training
from regard.config import PretrainedTaggerConfig, RecurrentTaggerConfig, TaggedDataConfig, TransformerTaggerConfig
from regard.plurals import counted
from regard.task.settings import Choice, SettingsTable, UserSettings
from regard.tasks.tagging.config import TaggingConfig
from regard.text.report import ReadingReport
from regard.text.tagged.readers import read_tagged

_MODELS = {"recurrent": RecurrentTaggerConfig, "transformer": TransformerTaggerConfig, "pretrained": PretrainedTaggerConfig}
# Number of sentences up to which a pretrained encoder is recommended.
_FEW_SENTENCES = 15_000
_ADVICE = (
    "with so few sentences, a pretrained encoder finds more names that training lacks: on about 1,200 sentences of WikiGold, "
    "the F1 of spans is 75 instead of 62; for English, add --model.encoder.name hf://sentence-transformers/all-MiniLM-L6-v2, "
    "which downloads 91 MB"
)


class TaggingTable(SettingsTable):
    """The `SettingsTable` of taggers."""

    def choose(self, data: TaggedDataConfig, given: UserSettings, *, read: bool = True) -> Choice:
        kind = given.kind("model", _MODELS, "recurrent")
        sentences, words = _count(data) if read else (_FEW_SENTENCES + 1, 1)
        found = f"{counted(sentences, 'sentence')} of {words / max(sentences, 1):.1f} words on average"
        advice = (_ADVICE,) if kind != "pretrained" and sentences <= _FEW_SENTENCES else ()
        return Choice("tagger-pretrained" if kind == "pretrained" else "tagger", {}, (found, *advice))

    def describe(self, config: TaggingConfig) -> tuple[str, ...]:
        own = "that of the encoder" if config.model.kind == "pretrained" else config.tokenizer.kind
        return f"model: {config.model.kind}", f"tokenizer: {own}", describe_training(config)


def _count(data: TaggedDataConfig) -> tuple[int, int]:
    """Return the numbers of sentences and of words in the training files."""
    sentences = words = 0
    for chunk in read_tagged(data.train, data, ReadingReport()):
        sentences += len(chunk.line)
        words += sum(text.count(" ") + 1 for text in chunk.target)
    return sentences, words
