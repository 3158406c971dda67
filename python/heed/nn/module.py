"""The base of layers and models: parameters by name, training and evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from .. import _heed
from .._heed import Tensor

Self = TypeVar("Self", bound="Module")


class Parameter(Tensor):
    """A tensor that a :class:`Module` lists among its parameters.

    >>> import heed
    >>> Parameter(heed.zeros(2, 3)).requires_grad
    True
    """

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        super().__init__(data.detach())
        self.requires_grad = requires_grad

    @classmethod
    def _of(cls, tensor: Tensor) -> Parameter:
        """The same tensor, gradient included."""
        made = cls.__new__(cls)
        Tensor.__init__(made, tensor)
        return made


class Module:
    """A layer or a model: assign parameters and other modules as attributes, write ``forward``.

    >>> import heed
    >>> from heed import nn
    >>> class Twice(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.linear = nn.Linear(4, 4)
    ...     def forward(self, x: heed.Tensor) -> heed.Tensor:
    ...         return self.linear(self.linear(x))
    >>> [name for name, _ in Twice().named_parameters()]
    ['linear.weight', 'linear.bias']
    """

    training: bool
    _parameters: dict[str, Parameter]
    _buffers: dict[str, Tensor]
    _modules: dict[str, Module]
    _index: int | None  # in a list of blocks, for hook names

    def __init__(self) -> None:
        for name, value in (("training", True), ("_parameters", {}), ("_buffers", {}), ("_modules", {}), ("_index", None)):
            object.__setattr__(self, name, value)

    # Attributes -----------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"call super().__init__() before assigning {name!r}")
        for kind in (self._parameters, self._buffers, self._modules):
            if name in kind and not isinstance(value, (Tensor, Module)):
                del kind[name]
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        elif isinstance(value, Tensor) and name in self._buffers:
            self._buffers[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def register_buffer(self, name: str, tensor: Tensor, persistent: bool = True) -> None:
        """A tensor that is saved with the parameters and takes no gradient."""
        self._buffers[name] = tensor
        if not persistent:
            self.__dict__.setdefault("_unsaved", set()).add(name)

    def register_parameter(self, name: str, tensor: Parameter) -> None:
        self._parameters[name] = tensor

    def add_module(self, name: str, module: Module) -> None:
        self._modules[name] = module

    # Calls ----------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._index is not None and _heed.observing():
            with _heed.HookScope("blocks", self._index):
                return self.forward(*args, **kwargs)
        return self.forward(*args, **kwargs)

    # Parameters -----------------------------------------------------------------------------------

    def children(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, however many names it has."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, tensor in module._parameters.items():
                if hash(tensor) not in seen:
                    seen.add(hash(tensor))
                    yield (f"{path}.{name}" if path else name), tensor

    def parameters(self) -> Iterator[Parameter]:
        for _, tensor in self.named_parameters():
            yield tensor

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, sharing memory with the module."""
        state: dict[str, Tensor] = {}
        for path, module in self.named_modules():
            unsaved = module.__dict__.get("_unsaved", ())
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if name not in unsaved:
                    state[f"{path}.{name}" if path else name] = tensor.detach()
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copies tensors or arrays in by name; a missing, extra or misshapen one is an error."""
        own = self.state_dict()
        missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        wrong = [
            f"{name} is {tuple(state[name].shape)}, not {own[name].shape}"
            for name in own.keys() & state.keys()
            if tuple(state[name].shape) != own[name].shape
        ]
        problems = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(extra)}"] * bool(extra)
        if wrong or (strict and problems):
            raise _heed.Error("; ".join((*problems, *sorted(wrong))))
        for name in own.keys() & state.keys():
            own[name].copy_(_heed.as_tensor(state[name]))

    def save(self, path: Any) -> None:
        """Writes the state as .safetensors."""
        _heed.save_file(self.state_dict(), path)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for tensor in self.parameters():
            tensor.grad = None

    def requires_grad_(self: Self, wanted: bool = True) -> Self:
        for tensor in self.parameters():
            tensor.requires_grad = wanted
        return self

    # Modes ----------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        for module in self.modules():
            object.__setattr__(module, "training", mode)
        return self

    def eval(self: Self) -> Self:
        return self.train(False)

    def to(self: Self, device: str = "cpu") -> Self:
        if str(device) != "cpu":
            raise ValueError(f"heed runs on the CPU; there is no {device!r}")
        return self

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        for module in reversed(list(self.modules())):
            fn(module)
        return self

    # Pictures -------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        inside = "".join(f"\n  {line}" for line in lines)
        return f"{type(self).__name__}({self.extra_repr()}{inside}{chr(10) if lines else ''})"

    def _repr_html_(self) -> str:
        from ..notebook import module_html

        return module_html(self)


class Layer(Module):
    """A layer of the library: its parameters keep the library's names."""

    _layer: Any

    def _adopt(self, layer: Any) -> None:
        object.__setattr__(self, "_layer", layer)
        for path, tensor in layer.parameters():
            *outer, name = path.split(".")
            module: Module = self
            for part in outer:
                module = module._modules.setdefault(part, Group())
            module._parameters[name] = Parameter._of(tensor)

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_replacement(self, name, value)
        super().__setattr__(name, value)

    def __deepcopy__(self, memo: Any) -> Layer:
        copy = self._fresh()
        copy.load_state_dict(self.state_dict())
        return copy.train(self.training)

    def _fresh(self) -> Layer:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        state = {name: tensor.numpy() for name, tensor in self.state_dict().items()}
        return _restore_layer, (type(self), self._arguments, state)

    _arguments: dict[str, Any]


class Group(Module):
    """Parameters of a :class:`Layer` under a common name."""

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_replacement(self, name, value)
        super().__setattr__(name, value)


def _refuse_replacement(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and name in module.__dict__.get("_parameters", ()):
        raise AttributeError(
            f"{name} belongs to a layer of the library and cannot be replaced; write into it: {name}.copy_(…)"
        )


def _restore_layer(kind: type[Layer], arguments: dict[str, Any], state: dict[str, Any]) -> Layer:
    layer = kind(**arguments)
    layer.load_state_dict(state)
    return layer


class ModuleList(Module):
    """Modules by index. Blocks in it are recorded as ``blocks.0``, ``blocks.1``, …"""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        object.__setattr__(module, "_index", len(self._modules))
        self._modules[str(len(self._modules))] = module
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: int) -> Module:
        return list(self._modules.values())[index]


class Sequential(ModuleList):
    """Modules that are called one after the other."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Tensor) -> Tensor:
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self._modules.update(modules or {})

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]
