"""Check whether a module still computes the formula that its class defines.

A fast path computes a formula from a module's weights, without calling the module. It must not be taken where a call would do
something else: a subclass overrides a method, somebody put a method of their own on the object, or a hook changes the result.
"""

from inspect import isfunction

from torch import nn


def runs_original(module: nn.Module, cls: type[nn.Module]) -> bool:
    """Return whether a module runs all methods of a class as that class defines them, without hooks around `forward`.

    Args:
        module: The module.
        cls: The class whose formula the caller knows.
    """
    methods = {name: method for name, method in vars(cls).items() if isfunction(method) and not name.startswith("__")}
    same = all(getattr(type(module), name, None) is method for name, method in methods.items())
    return same and vars(module).keys().isdisjoint(methods) and not (module._forward_hooks or module._forward_pre_hooks)
