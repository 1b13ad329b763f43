"""The simulated Spyre: a device of PyTorch whose tensors lie in sticks, in the number formats of the card.

Importing this package, or any module of it, registers `device="spyre"` (once per process). Vocabulary, names of fields and switches
follow the public torch-spyre project, so that what is learned here is true there.
"""

from . import registration as _registration

_registration.register()
uses_real_device = _registration.uses_real_device
