"""The simulated Spyre: tensors on `device="spyre"`, in sticks, in the device's number formats.

Importing this package, or any module of it, registers the device with PyTorch (once per process). Vocabulary, names of fields
and switches follow the public torch-spyre project, so that what is learned here is true there.
"""

from . import registration as _registration

_registration.register()
uses_real_device = _registration.uses_real_device
