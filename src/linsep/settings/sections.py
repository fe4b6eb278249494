"""The configuration's sections: fields, types, limits and defaults.

Types are strict: a boolean or a text is no number, but an integer may stand for a float. Knows no
torch, no files, and no recipe: `prepare.resolve` fills in what the user left open with what the
scenario and the method suggest, before these defaults.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_serializer, model_validator

MOST = 10**9  # of anything that is counted
LARGEST = 1e30  # a float32 overflows not far above
Count = Annotated[int, Field(ge=1, le=MOST)]
Rows = Annotated[int, Field(ge=2, le=MOST)]  # BatchNorm cannot normalise one
Rate = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Weight = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, AfterValidator(lambda text: text.encode().decode())]  # that a file can hold

# One number for each channel, or one for all.
Channels = Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(strict=False)]


def _positive(numbers: tuple[float, ...]) -> tuple[float, ...]:
    if not all(number > 0 for number in numbers):
        raise ValueError("should be above 0")
    return numbers


# Which snapshots of a run to keep: the last task's, all tasks', or all epochs'.
Keep = Literal["end", "tasks", "epochs"]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", validate_default=True)

    # Fields that were added later, and what every run was before: at that they are not written, so
    # that keys and files of earlier runs stay.
    added: ClassVar[Mapping[str, Any]] = {}

    @model_serializer(mode="wrap")
    def _without_added(self, serialize: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        return {k: v for k, v in content.items() if k not in self.added or v != self.added[k]}


class Named(Section):
    """Something chosen by name; fields that are not listed here are its options."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)  # of the recipe, which checks them

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        own = {k: v for k, v in given.items() if k in cls.model_fields}
        rest = {k: v for k, v in given.items() if k not in cls.model_fields}
        if not isinstance(own.get("options", {}), dict):
            return own  # to be refused
        return own | ({"options": own.get("options", {}) | rest} if rest else {})


class Augmentation(Section):
    """How images are varied and normalised; what is left out stays as is usual for the data."""

    crop: Annotated[int, Field(ge=0, le=4096)] | None = None  # black border before a random crop
    flip: bool | None = None  # left-right, half of the time
    size: Annotated[int, Field(ge=1, le=4096)] | None = None  # side to which images are resized
    mean: Channels | None = None  # per channel, of pixels from 0 to 1; a pretrained net has its own
    std: Annotated[Channels, AfterValidator(_positive)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _nothing(cls, given: Any) -> Any:
        return {"crop": 0, "flip": False} if given == "none" else given


class Scenario(Named):
    """Which classes come when, and from which images."""

    added = {"augment": None}

    name: str = "fashion-mini"
    data: Text | None = None  # the folder or file that holds the images; not part of a run's key
    per_task: Count | None = None  # classes per task; None: what is usual for the data
    first_task: Count | None = None  # classes of the first task, where that is larger
    order: Literal["natural", "shuffled"] = "natural"
    order_seed: Seed = 0
    per_class: Count | None = None  # training images of each class, for quick studies; None: all
    test_per_class: Count | None = None
    validation: Share = 0.0  # share of the training images to test on, instead of the test images
    augment: Augmentation | None = None  # e.g. {crop = 4, flip = false}, or "none"


class Net(Named):
    """The backbone; the head is the method's."""

    added = {"weights": None, "weights_digest": None, "train": None}

    name: str = "resnet18"  # by name, or your own as file.py:function
    weights: Text | None = None  # file to start from: .safetensors, or .pt with a state dict
    weights_digest: str | None = None  # of that file; filled in, and checked when it is there
    # Modules that learn, such as ["layer4", "head"]; the others keep their weights and stay in
    # eval mode, BatchNorm's statistics included. None: all learn.
    train: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None


class Own(Section):
    """A part of the user's own: where its code is, and which code it was."""

    source: Text  # file.py:function or module:function, or the package that offers it
    digest: str = ""  # of the source; filled in, and checked when it is there


Milestone = Count | Annotated[float, Field(gt=0, lt=1)]


class Schedule(Section):
    """The learning rate as a function of the epoch within a task."""

    # After that many epochs, or that share of them, the rate is multiplied by `factor`.
    milestones: Annotated[tuple[Milestone, ...], Field(strict=False)] = ()
    factor: Rate = 0.1
    # The number of epochs over which the rate rises linearly to its full value.
    warmup: Annotated[int, Field(ge=0, le=MOST)] = 0
    milestones_from: Literal["start", "warmup_end"] = "start"

    def rate(self, epoch: int) -> float:
        """What the base learning rate is multiplied by in this epoch, counted from 0."""
        if epoch < self.warmup:
            return (epoch + 1) / (self.warmup + 1)
        start = self.warmup if self.milestones_from == "warmup_end" else 0
        return self.factor ** sum(epoch - start >= m for m in self.milestones)


class Training(Section):
    """How the weights move; SGD as in the paper, or AdamW."""

    added = {"optimizer": "sgd"}

    # SGD with momentum, or AdamW with torch's betas, whose learning rate is 0.001 unless given.
    optimizer: Literal["sgd", "adamw"] = "sgd"
    epochs: Count = 5  # per task
    batch_size: Rows = 32
    lr: Rate = 0.03
    momentum: Share = 0.0
    weight_decay: Weight = 0.0
    schedule: Schedule = Schedule()
    # Which passes move BatchNorm's running statistics: every draw's, or the stream's alone.
    bn_updates: Literal["all", "stream"] = "all"


class Memory(Section):
    """What is kept of the past, and how it is drawn from."""

    rows: Annotated[int, Field(ge=0, le=10_000_000)] = 200  # 0 where the method keeps none
    policy: str = "balanced"  # how rows are chosen: balanced or plain reservoir, or the method's
    evict: Literal["all_largest", "one_largest"] = "all_largest"  # balanced policy: among ties
    draw: Rows = 32  # rows per draw; suggested: the batch size
    draws: Literal["fresh", "shared"] = "fresh"  # a draw for each term, or one for all


class Evaluation(Section):
    added = {"batchnorm": "running"}

    mask_unseen: bool = True  # classes not seen yet cannot be predicted
    rule: Literal["method", "logits"] = "method"  # the method's own predictor, or the bare head
    chunk: Count = 256  # images at once where there is no gradient
    # BatchNorm's statistics at evaluation: those of training's last steps, or estimated anew on the
    # memory and the task's images. Training is the same either way.
    batchnorm: Literal["running", "reestimated"] = "running"


class Compute(Section):
    added = {"deterministic": True}

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: Count | None = None  # of the CPU; None: one, or as many as the run was begun with
    precision: Literal["fp32", "bf16"] = "fp32"
    deterministic: bool = True  # on CUDA: the same bits every time, at some cost
    channels_last: bool | Literal["auto"] = "auto"  # faster for convolutions; auto: where it can be
    compile: bool = False
