"""Compiles each .cu file beside this one to a PTX file in a folder: `nvrtc.py FOLDER [option…]`. See build.sh."""
import ctypes
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPTIONS = ("--gpu-architecture=compute_37", "--std=c++14", "--fmad=false")


def library():
    """NVRTC from the wheel in this Python's site-packages."""
    import nvidia.cuda_nvrtc

    folder = pathlib.Path(next(iter(nvidia.cuda_nvrtc.__path__))) / "lib"
    ctypes.CDLL(str(next(folder.glob("libnvrtc-builtins.so.*"))), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(next(folder.glob("libnvrtc.so.*"))))


def compile_ptx(nvrtc, source, options=()):
    """The PTX of one source file."""

    def call(name, *arguments):
        code = getattr(nvrtc, name)(*arguments)
        if code and name != "nvrtcCompileProgram":
            raise RuntimeError(f"{name}: error {code}")
        return code

    def text(of, program):
        size = ctypes.c_size_t()
        call(f"nvrtcGet{of}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(f"nvrtcGet{of}", program, buffer)
        return buffer.value.decode()

    arguments = [o.encode() for o in (*OPTIONS, *options, f"--include-path={HERE}")]
    program = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
    failed = call("nvrtcCompileProgram", program, len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
    log = "\n".join(line for line in text("ProgramLog", program).splitlines() if "deprecated" not in line).strip()
    if log:
        print(log, file=sys.stderr)
    if failed:
        sys.exit(1)
    return re.sub(r"^\.version 7\.8$", ".version 6.0", text("PTX", program), count=1, flags=re.MULTILINE)


if __name__ == "__main__":
    folder, compiler = pathlib.Path(sys.argv[1]), library()
    for path in sorted(HERE.glob("*.cu")):
        (folder / path.with_suffix(".ptx").name).write_text(compile_ptx(compiler, path, sys.argv[2:]))
