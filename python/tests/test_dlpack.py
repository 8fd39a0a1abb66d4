"""Tensors of GPUs where there is none: what DLPack says is read, given back, and the reason is told."""

import ctypes

import numpy as np
import pytest

import histeqd


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Lent:
    """A tensor that claims to be in the memory of GPU 0, at an address that nothing may touch."""

    def __init__(self, shape, code=1, bits=8, versioned=False, major=1):
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.deleted = 0
        self.deleter = DELETER(self.delete)
        tensor = DLTensor(4096, 2, 0, len(shape), code, bits, 1, self.shape, None, 0)
        self.managed = Versioned(major, 0, None, self.deleter, 0, tensor) if versioned else Legacy(tensor, None, self.deleter)
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def delete(self, _):
        self.deleted += 1

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream):
        assert stream == 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), self.name, None)


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.skipif(has_driver(), reason="there is a driver, which would read what is not there")
def test_without_a_driver_the_reason_is_told(versioned):
    for call in (histeqd.equalize, histeqd.clahe, histeqd.histogram):
        lent = Lent((20, 30), versioned=versioned)
        with pytest.raises(RuntimeError, match=r"there is no NVIDIA driver \(libcuda.so.1 was not found\)"):
            call(lent)
        assert lent.deleted == 1


def test_what_is_wrong_is_told_before_a_gpu_is_needed():
    for lent, error, words in [
        (Lent((20, 30), code=2, bits=32), TypeError, "array: has samples of another kind of 32, not uint8 or uint16"),
        (Lent((20,)), ValueError, "array: has the shape"),
        (Lent((20, 0)), ValueError, "array: has the shape .*, without pixels"),
        (Lent((20, 30), versioned=True, major=2), BufferError, "of a version of DLPack other than 1"),
    ]:
        with pytest.raises(error, match=words):
            histeqd.equalize(lent)
        assert lent.deleted == 1
    with pytest.raises(TypeError, match="out: is not in the memory of the GPU"):
        histeqd.equalize(Lent((20, 30)), out=np.zeros((20, 30), np.uint8))
