"""A GPU that is not there: numbers stay on the CPU, and everything else is as on the device.

    with pretend("cuda") as gpu:
        learner = Learner(net, method, device="cuda")
        ...
    print(gpu.waits)  # what would have made the host wait for the device, by source line

Each storage carries the name of the device it claims to be on. It refuses what real torch refuses:
tensors of two devices in one operation (except CPU tensors without dimensions), float64 on mps,
`numpy()` of a device's tensor, a CPU generator for a device's draw. It also refuses what torch
allows and gets wrong: copies to mps that do not block, and BatchNorm on mps in channels_last.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SOURCE = f"{Path(__file__).parents[1]}/"

READS = {"_local_scalar_dense", "equal", "is_nonzero", "nonzero", "masked_select", "bincount"}
READS |= {"_unique2", "unique_dim", "unique_consecutive", "repeat_interleave"}
"""Operations whose result the host must read: a number, or a size that depends on values."""

INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
BATCH_NORM = {"native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit"}
BATCH_NORM |= {"_batch_norm_with_update", "batch_norm_backward", "_batch_norm_impl_index"}


class Gpu:
    """A kind of device, with counters."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.waits: Counter[str] = Counter()
        self.pickled = 0
        self.seeded = mock.Mock()
        """Called with each seed of the device's generator."""
        reduce: Any = Tensor._reduce_ex_internal

        def pickle(tensor: Tensor, protocol: int) -> Any:
            self.pickled += kind_of(tensor) != "cpu"
            return reduce(tensor, protocol)

        self.pickle = pickle

    def wait(self) -> None:
        """Count a wait of the host for the device."""
        self.waits[source_line()] += 1

    def check_dtype(self, dtype: torch.dtype) -> None:
        if self.kind == "mps" and dtype in (torch.float64, torch.complex128):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")


@contextmanager
def pretend(kind: str, *, count: int = 1, free_bytes: int = 1 << 34) -> Iterator[Gpu]:
    """Pretend that there are `count` devices of this kind, each with this much free memory."""
    gpu, module = Gpu(kind), getattr(torch, kind)
    own_state = {"get_rng_state": torch.get_rng_state, "set_rng_state": torch.set_rng_state}
    stand_ins: dict[str, mock.Mock] = {"device_count": mock.Mock(return_value=count)}
    stand_ins["manual_seed"] = gpu.seeded
    if kind == "cuda":  # its functions are also given the device, last
        for name, function in own_state.items():
            stand_ins[name] = mock.Mock(side_effect=lambda *args, f=function: f(*args[:-1]))
        stand_ins["device"] = mock.MagicMock()
        stand_ins["mem_get_info"] = mock.Mock(return_value=(free_bytes, free_bytes))
    else:
        stand_ins |= {name: mock.Mock(side_effect=f) for name, f in own_state.items()}
        stand_ins["recommended_max_memory"] = mock.Mock(return_value=free_bytes)
        stand_ins["driver_allocated_memory"] = mock.Mock(return_value=0)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(module, **stand_ins))
        stack.enter_context(mock.patch.object(torch, "autocast", autocast))
        stack.enter_context(mock.patch.object(Tensor, "_reduce_ex_internal", gpu.pickle))
        stack.enter_context(Functions(gpu))
        stack.enter_context(Operations(gpu))
        yield gpu


class autocast(torch.autocast):
    """The CPU's autocast, for any device."""

    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", *args, **kwargs)


def kind_of(tensor: Tensor) -> str:
    """Return the device that a tensor claims to be on."""
    return getattr(_storage(tensor), "pretends", "cpu")


def is_pinned(tensor: Tensor) -> bool:
    return getattr(_storage(tensor), "pinned", False)


def placed(tensor: Tensor, kind: str) -> Tensor:
    """Mark a tensor, which must have its own storage, as being on this device."""
    _storage(tensor).pretends = kind
    return tensor


def _storage(tensor: Tensor) -> Any:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # oneDNN's own layout has none
        return None


def source_line() -> str:
    """Find the package's line that is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(SOURCE) and path != __file__:
            return f"{path.removeprefix(SOURCE)}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


class Functions(TorchFunctionMode):
    """Answers Python's questions to tensors about devices, and moves them."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self.gpu = gpu
        ask: Any = Tensor  # its attributes are descriptors, which the stubs do not say
        self.answers: dict[Any, Any] = {
            ask.device.__get__: self.device,
            ask.is_cuda.__get__: lambda t: kind_of(t) == "cuda",
            ask.is_mps.__get__: lambda t: kind_of(t) == "mps",
            ask.is_cpu.__get__: lambda t: kind_of(t) == "cpu",
            Tensor.to: self.to,
            Tensor.cpu: lambda t, **how: self.moved(t, "cpu"),
            Tensor.cuda: lambda t, *_, non_blocking=False: self.moved(t, "cuda", non_blocking),
            Tensor.pin_memory: self.pin,
            Tensor.is_pinned: lambda t, *_: is_pinned(t),
            Tensor.numpy: self.numpy,
            ask.__array__: lambda t, *args: self.numpy(t).__array__(*args),
            Tensor.tolist: lambda t: self.moved(t, "cpu").tolist(),
            ask.__deepcopy__: self.deepcopy,
        }

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in self.answers:
            return self.answers[function](*args, **kwargs)
        if kwargs.get("device") is not None:
            return self.made(function, args, kwargs)
        return function(*args, **kwargs)

    def device(self, tensor: Tensor) -> torch.device:
        kind = kind_of(tensor)
        return Tensor.device.__get__(tensor) if kind == "cpu" else torch.device(kind, 0)

    def made(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Make a new tensor on the named device."""
        device = torch.device(kwargs["device"])
        if device.type not in ("cpu", self.gpu.kind):
            return function(*args, **kwargs)
        made = function(*args, **{**kwargs, "device": "cpu"})
        if not isinstance(made, Tensor):
            return made
        if function in (torch.tensor, torch.as_tensor, Tensor.new_tensor):
            return self.moved(made, device.type)
        if device.type != "cpu":
            self.gpu.check_dtype(made.dtype)
        return placed(made, device.type)

    def to(self, tensor: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
        if (args and isinstance(args[0], Tensor)) or "other" in kwargs:
            other, *rest = (*args, kwargs.pop("other", None))
            args = (self.device(other), other.dtype, *(a for a in rest if a is not None))
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*args, **kwargs)
        kind = kind_of(tensor) if device is None else device.type
        if dtype is not None and kind_of(tensor) != "cpu":
            self.gpu.check_dtype(dtype)  # converted where it is, then copied
        how: Any = {} if layout is None else {"memory_format": layout}
        if dtype is not None or copy or how:
            tensor = tensor.to(dtype or tensor.dtype, copy=copy, **how)
        if kind not in ("cpu", self.gpu.kind):
            return tensor.to(device)
        return self.moved(tensor, kind, non_blocking)

    def moved(self, tensor: Tensor, kind: str, non_blocking: bool = False) -> Tensor:
        if kind_of(tensor) == kind:
            return tensor
        self.gpu.check_dtype(tensor.dtype)
        if non_blocking and self.gpu.kind == "mps":
            raise AssertionError("a copy to or from mps that does not block may read freed memory")
        if non_blocking and kind == "cpu":
            raise AssertionError("a copy to the host that does not block is read before it is made")
        if not (non_blocking and is_pinned(tensor)):
            self.gpu.wait()
        return placed(tensor.clone(), kind)

    def pin(self, tensor: Tensor, *_: Any) -> Tensor:
        if kind_of(tensor) != "cpu":
            raise RuntimeError(f"cannot pin a tensor on {kind_of(tensor)}: only CPU memory")
        if self.gpu.kind != "cuda":
            raise RuntimeError("no pinned memory without CUDA")
        if is_pinned(tensor):
            return tensor
        pinned = tensor.clone()
        _storage(pinned).pinned = True
        return pinned

    def numpy(self, tensor: Tensor, *, force: bool = False) -> Any:
        if kind_of(tensor) != "cpu":
            if not force:
                raise TypeError(f"can't convert {kind_of(tensor)}:0 device type tensor to numpy")
            tensor = self.moved(tensor, "cpu")
        return tensor.numpy(force=force)

    def deepcopy(self, tensor: Tensor, memo: Any) -> Tensor:
        copied: Tensor = tensor.__deepcopy__(memo)  # type: ignore[no-untyped-call]
        return placed(copied, kind_of(tensor)) if kind_of(tensor) != "cpu" else copied


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches all operations, also of backward passes: all tensors must share a device."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gpu = gpu

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = operation._schema.name.removeprefix("aten::")
        if name == "copy_":
            self.copy(*args, **kwargs)
            return operation(*args, **kwargs)
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if name in INDEXING:
            inputs = self.index(name, *args)
        where = self.common(name, inputs)
        if where != "cpu":
            self.check(name, inputs, kwargs)
        out = operation(*args, **kwargs)
        if where != "cpu":
            for tensor in tree_leaves(out):
                if isinstance(tensor, Tensor):
                    self.gpu.check_dtype(tensor.dtype)
                    placed(tensor, where)
        return out

    def common(self, name: str, inputs: list[Tensor]) -> str:
        kinds = {kind_of(t) for t in inputs if t.dim() or kind_of(t) != "cpu"}
        if len(kinds) > 1:
            raise RuntimeError(f"Expected all tensors of {name} on one device, found {kinds}")
        return kinds.pop() if kinds else "cpu"

    def check(self, name: str, inputs: list[Tensor], kwargs: dict[str, Any]) -> None:
        if name in READS:
            self.gpu.wait()
        if isinstance(kwargs.get("generator"), torch.Generator):
            raise RuntimeError(f"{name} on {self.gpu.kind} with a generator of the CPU")
        if name in BATCH_NORM and self.gpu.kind == "mps":
            for x in inputs:
                if x.dim() == 4 and not x.is_contiguous():
                    raise AssertionError(f"{name} on mps in channels_last gives wrong gradients")

    def copy(self, to: Tensor, of: Tensor, non_blocking: bool = False) -> None:
        if kind_of(to) == kind_of(of) or (of.dim() == 0 and kind_of(of) == "cpu"):
            return
        self.gpu.check_dtype(of.dtype)
        if not (non_blocking and self.gpu.kind == "cuda" and is_pinned(of)):
            self.gpu.wait()

    def index(self, name: str, of: Tensor, indices: Any, *values: Any) -> list[Tensor]:
        """Count waits for indices from the host, which are copied, and for masks."""
        for index in indices:
            if not isinstance(index, Tensor) or kind_of(of) == "cpu" == kind_of(index):
                continue
            if kind_of(index) != "cpu" and kind_of(of) == "cpu":
                raise RuntimeError("indices should be on the same device as the indexed tensor")
            if kind_of(index) == "cpu":
                self.gpu.wait()
            if index.dtype in (torch.bool, torch.uint8):
                self.gpu.wait()
        return [of, *(value for value in values if isinstance(value, Tensor))]
