"""What stands where a released buffer was that no state dict brings back.

`to_empty` would put memory that nobody has filled in its place, without a sign. Torch keeps a
tensor's class when it makes an empty one like it, so that what comes out of that is still known.

Threads: those of the module that it is in. Imports torch; only release() imports this.
"""

from __future__ import annotations

from typing import Any

import torch


class Placeholder(torch.Tensor):  # type: ignore[misc]
    """On meta, or what `to_empty` has made of it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = self.plain().clone() if self.filled() else torch.empty_like(self)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.filled():
            return self.plain().__reduce_ex__(protocol)
        return placeholder, (tuple(self.shape), self.dtype, str(self.device))

    def plain(self) -> Any:
        return self.as_subclass(torch.Tensor)

    def filled(self) -> bool:
        """Each change in place counts up a tensor's version; inference tensors have none."""
        if self.device.type == "meta" or self.is_inference():
            return False
        return bool(self._version > 0)


def placeholder(shape: tuple[int, ...], dtype: Any, device: str = "meta") -> Any:
    return torch.empty(shape, dtype=dtype, device=device).as_subclass(Placeholder)
