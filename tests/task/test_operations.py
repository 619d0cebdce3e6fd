"""One declaration of an option serves Python, the command line and the service."""

import inspect
from dataclasses import asdict

import pytest
from pydantic import ValidationError

from regard.cli import operate
from regard.config import DecodingConfig, GenerationConfig
from regard.config.fields import facts_of
from regard.config.settings import override
from regard.errors import ArgumentError, RequestError
from regard.serve.limits import DEFAULT_LIMITS, Limits
from regard.serve.request_models import find_endpoints
from regard.tasks.language.commands import Generate
from regard.tasks.language.predict import LanguageModel
from regard.tasks.translation.predict import Translator
from regard.tasks.translation.text_commands import Translate

ENDPOINTS = {endpoint.name: endpoint for endpoint in find_endpoints(DEFAULT_LIMITS)}
CASES = [
    (Translate, DecodingConfig, Translator.translate, {"batch_tokens"}),
    (Generate, GenerationConfig, LanguageModel.generate, set()),
]


@pytest.mark.parametrize(("operation", "config", "method", "without"), CASES)
def test_a_setting_of_the_run_is_an_option_everywhere(operation, config, method, without):
    settings = facts_of(config).keys() - without
    assert settings <= operation.options().keys()
    assert settings <= inspect.signature(method).parameters.keys()
    assert settings <= vars(operate._parser(operation).read(["DIR"])).keys()
    assert settings - operation.command_only <= ENDPOINTS[operation.name].body.model_fields.keys()


@pytest.mark.parametrize("value", [-1, 10.5, 100])
def test_a_range_is_the_same_everywhere(value):
    with pytest.raises(ValidationError):
        ENDPOINTS["translate"].body(texts=["a"], length_penalty=float(value))
    with pytest.raises(RequestError, match="length_penalty is"):
        override(DecodingConfig(), {"length_penalty": value}, "translate")
    with pytest.raises(RequestError, match="expected from 0 to 10"):
        operate._parser(Translate).read(["DIR", f"--length-penalty={value}"])


def test_limits_of_a_service_come_on_top():
    [endpoint] = [one for one in find_endpoints(Limits(beam=3, tokens=50)) if one.name == "translate"]
    assert endpoint.body(texts=["a"], beam_size=3, max_length=50)
    for wrong in ({"beam_size": 4}, {"n_best": 4}, {"max_length": 51}, {"max_length": 0}):
        with pytest.raises(ValidationError):
            endpoint.body(texts=["a"], **wrong)


def test_every_limit_of_an_option_exists():
    limits = asdict(DEFAULT_LIMITS)
    for endpoint in ENDPOINTS.values():
        for operation in endpoint.operations.values():
            assert {*operation.caps.values(), operation.longest} <= limits.keys()


def test_an_unknown_setting_is_named():
    with pytest.raises(ArgumentError, match="translate got an unexpected argument 'beamsize'; did you mean 'beam_size'"):
        override(DecodingConfig(), {"beamsize": 3}, "translate")
