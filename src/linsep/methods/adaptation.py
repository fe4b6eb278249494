"""When the backbone learns: FSA adapts it to the first task and keeps it from then on."""

from dataclasses import replace

from ..errors import ConfigError
from ..learning.method import AddOn, Method, Stage


def fsa() -> AddOn:
    """First-session adaptation: the backbone learns in the first task only.

    From the second task on, each stage trains the head alone, or what else it trains beside the
    backbone, and the features stay what they are, BatchNorm's statistics included. So statistics of
    features that `transport` or `ranpac` keep stay exact. Meant for a pretrained backbone.
    """
    return _adapted


def _adapted(method: Method) -> Method:
    if any(stage.reinitialise for stage in method.stages):
        raise ConfigError(
            "add-on 'fsa' keeps the backbone of the first task, and this method starts "
            "every task from a new one; leave one out"
        )
    return replace(method, stages=tuple(map(_resting, method.stages)))


def _resting(stage: Stage) -> Stage:
    beside = [name for name in stage.trains if name.partition(".")[0] != "backbone"]
    return replace(stage, later=tuple(beside))
