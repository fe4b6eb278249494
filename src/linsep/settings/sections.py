"""The configuration's sections: fields, types, limits and defaults.

Types are strict: a boolean or a text is no number, but an integer may stand for a float. What the
user leaves open is filled in by `resolve`: what the scenario and the method suggest comes before
these defaults.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

MOST = 10**9  # of anything that is counted
LARGEST = 1e30  # a float32 overflows not far above
Count = Annotated[int, Field(ge=1, le=MOST)]
Rows = Annotated[int, Field(ge=2, le=MOST)]  # BatchNorm cannot normalise one
Rate = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Weight = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, AfterValidator(lambda text: text.encode().decode())]  # that a file can hold


def _label(text: str) -> str:
    if text != text.strip() or not text.isprintable() or not 0 < len(text) <= 80:
        raise ValueError("should be 1 to 80 printable characters, without spaces around them")
    return text


def _tag(text: str) -> str:
    if "," in text:
        raise ValueError("should have no comma")
    return _label(text)


# What people call things. No number depends on it, so it is not part of a run's key.
Label = Annotated[Text, AfterValidator(_label)]
Tags = Annotated[
    tuple[Annotated[Text, AfterValidator(_tag)], ...],
    Field(strict=False),
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
]

# One number for each channel, or one for all.
Channels = Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(strict=False)]


def _positive(numbers: tuple[float, ...]) -> tuple[float, ...]:
    if not all(number > 0 for number in numbers):
        raise ValueError("should be above 0")
    return numbers


# Which snapshots of a run to keep: the last task's, all tasks', or all epochs'.
Keep = Literal["end", "tasks", "epochs"]


class Section(BaseModel):
    # The text below a field is its description: help, `linsep list settings` and docs/settings.md
    # are made from it.
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        validate_default=True,
        use_attribute_docstrings=True,
    )


class Named(Section):
    """Something chosen by name; fields that are not listed here are its options."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of what is named, which checks them; they can also stand beside `name`."""

    @classmethod
    def beside_options(cls) -> list[str]:
        """The fields that stand beside the options."""
        return [name for name in cls.model_fields if name != "options"]

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        custom = {k: v for k, v in given.items() if k in cls.model_fields}
        rest = {k: v for k, v in given.items() if k not in cls.model_fields}
        if not isinstance(custom.get("options", {}), dict):
            return custom  # to be refused
        return custom | ({"options": custom.get("options", {}) | rest} if rest else {})


class Augmentation(Section):
    """How images are varied and normalised; what is left out stays as is usual for the data."""

    crop: Annotated[int, Field(ge=0, le=4096)] | None = None
    """Black border, in pixels, around an image before a random crop of its size."""
    flip: bool | None = None
    """Whether to mirror images left to right, half of the time."""
    size: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Side to which images are resized."""
    mean: Channels | None = None
    """Mean of each channel, of pixels from 0 to 1. Pretrained networks have their own."""
    std: Annotated[Channels, AfterValidator(_positive)] | None = None
    """Standard deviation of each channel."""

    @model_validator(mode="before")
    @classmethod
    def _nothing(cls, given: Any) -> Any:
        return {"crop": 0, "flip": False} if given == "none" else given


class Scenario(Named):
    """Which classes come when, and from which images."""

    name: str = "fashion-mini"
    """The data set and its split into tasks: `linsep list scenarios`."""
    data: Text | None = None
    """Folder or file that holds the images. Not part of a run's key."""
    data_name: Label | None = None
    """Name of the data in tables and reports. Not part of a run's key."""
    per_task: Count | None = None
    """Classes per task. Default: what is usual for the data."""
    first_task: Count | None = None
    """Classes of the first task, where it has more than the others."""
    order: Literal["natural", "shuffled"] = "natural"
    """Order of the classes: as the data set numbers them, or shuffled."""
    order_seed: Seed | Literal["seed"] = 0
    """Seed of the shuffled order: a number, or "seed" for that of the run."""
    per_class: Count | None = None
    """Training images of each class, for quick studies. Default: all."""
    test_per_class: Count | None = None
    """Test images of each class. Default: all."""
    subset_seed: Seed | Literal["seed"] = 0
    """Which images per_class and test_per_class keep: a number, or "seed" for those of a run's."""
    validation: Share = 0.0
    """Share of the training images to test on, in place of the test images."""
    augment: Augmentation | None = None
    """How images are varied and normalised: {crop = 4, flip = false}, or none. Default: as is usual
    for the data and the network."""


class Net(Named):
    """The backbone; the head is the method's."""

    name: str = "resnet18"
    """The network: `linsep list nets`, or your own as file.py:function."""
    weights: Text | None = None
    """File to start from: .safetensors, or .pt with a state dict. Not part of a run's key."""
    weights_digest: str | None = None
    """Digest of that file; filled in, and checked when it is there."""
    train: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None
    """Modules that learn, such as ["layer4", "head"]. The others keep their weights and stay in
    eval mode, BatchNorm's statistics included. Default: all learn."""


class Custom(Section):
    """A part of the user's own: where its code is, and which code it was."""

    source: Text
    """Where the code is: file.py:function, module:function, or the package that offers it."""
    digest: str = ""
    """Digest of the source; filled in, and checked when it is there."""


Milestone = Count | Annotated[float, Field(gt=0, lt=1)]


class Schedule(Section):
    """The learning rate as a function of the epoch within a task."""

    milestones: Annotated[tuple[Milestone, ...], Field(strict=False)] = ()
    """Epochs, or shares of the epochs, after which the learning rate is multiplied by `factor`."""
    factor: Rate = 0.1
    """What the learning rate is multiplied by at each milestone."""
    warmup: Annotated[int, Field(ge=0, le=MOST)] = 0
    """Epochs over which the learning rate rises linearly to its full value."""
    milestones_from: Literal["start", "warmup_end"] = "start"
    """Whether milestones count from the start of a task or from the end of its warm-up."""

    def rate(self, epoch: int) -> float:
        """What the base learning rate is multiplied by in this epoch, counted from 0."""
        if epoch < self.warmup:
            return (epoch + 1) / (self.warmup + 1)
        start = self.warmup if self.milestones_from == "warmup_end" else 0
        return self.factor ** sum(epoch - start >= m for m in self.milestones)


class Training(Section):
    """How the weights move; SGD as in the paper, or AdamW."""

    optimizer: Literal["sgd", "adamw"] = "sgd"
    """SGD with momentum, or AdamW with torch's betas, whose learning rate is 0.001 unless given."""
    epochs: Count = 5
    """Epochs per task."""
    batch_size: Rows = 32
    """Images per step."""
    lr: Rate = 0.03
    """Learning rate."""
    momentum: Share = 0.0
    """Momentum of SGD."""
    weight_decay: Weight = 0.0
    """L2 penalty on the weights."""
    schedule: Schedule = Schedule()
    bn_updates: Literal["all", "stream", "none"] = "all"
    """Which batches update BatchNorm's running statistics: all, those of the current task alone, or
    none. With none, training normalises by those that the network started with, as is usual for
    pretrained weights. A network without them (norm = "group", mlp) is the same in every case."""


class Memory(Section):
    """What is kept of the past, and how it is drawn from."""

    size: Annotated[int, Field(ge=0, le=10_000_000)] = 200
    """Images kept from earlier tasks; 0 where the method keeps none."""
    policy: str = "balanced"
    """How stored samples are chosen: by a balanced, a plain or a loss_aware reservoir, which is
    balanced and keeps hard samples longer, or in the method's own way."""
    evict: Literal["all_largest", "one_largest"] = "all_largest"
    """Balanced policy: take the sample to drop from all of the largest classes, or from one."""
    replay_batch_size: Rows = 32
    """Samples per replay batch. Default: the batch size."""
    replay_batches: Literal["fresh", "shared"] = "fresh"
    """A replay batch for each term of the loss, or one for all."""


class Evaluation(Section):
    """How images are classified after each task."""

    mask_unseen: bool = True
    """Classes that were not seen yet cannot be predicted."""
    rule: Literal["method", "logits"] = "method"
    """Predict by the method's own rule, or by the largest logit of the head."""
    chunk: Count = 256
    """Images at once where there is no gradient."""
    batchnorm: Literal["running", "recalibrated"] = "running"
    """BatchNorm's statistics: those of training's last steps, or estimated anew on images of the
    memory and the task, augmented as in training. Training is the same either way, and so are
    networks without them."""


class Compute(Section):
    """Where and how it is computed."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device; `auto` picks the fastest of this machine."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads per run. Default: 1, or as when the run began."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the network's passes."""
    deterministic: bool = True
    """On CUDA: the same bits every time, at some cost."""
    channels_last: bool | Literal["auto"] = "auto"
    """Memory layout that is faster for convolutions; `auto`: where all channels allow it."""
    compile: bool = False
    """Compile the network with torch.compile."""
