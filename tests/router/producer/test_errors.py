"""The tree in the docstring of `router.producer.errors` is complete."""

from __future__ import annotations

from router.messages import Failed, FailureCode, Usage
from router.producer import errors
from router.producer.errors import GenerationError, JobFailed


def test_every_error_is_in_the_docstrings_tree() -> None:
    own = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, GenerationError)]
    assert len(own) > 8
    for kind in own:
        assert kind.__name__ in str(errors.__doc__)


def test_a_failed_job_has_its_code_its_parameter_and_its_usage() -> None:
    usage = Usage(prompt_tokens=3)
    code = FailureCode.CONTEXT_LENGTH_EXCEEDED
    error = JobFailed(Failed(job_id="j", attempt_id="a", code=code, message="long", param="messages", usage=usage))
    assert (str(error), error.failure, error.param, error.usage) == ("long", code, "messages", usage)
