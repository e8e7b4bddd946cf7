"""Read and write netCDF files with a checksum in the last line."""

import hashlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kibitz._validation import short_repr

if TYPE_CHECKING:
    import xarray

FORMAT = 3  # number of the current file format; formats 1 and 2 used other names for variables
CHECKSUM_LINE = re.compile(rb"\nkibitz format (\d+) sha256 ([0-9a-f]{64})\n\Z")
READ_TIMEOUT_SECONDS = 60  # timeout for reading a file without a checksum


def to_netcdf(data: "xarray.Dataset") -> bytes:
    """Return a dataset as the bytes of a netCDF file.

    The bytes are built in memory, because HDF5 crashes if the disk is full.
    """
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    encoding = {variable: {"zlib": True, "complevel": 1} for variable in data.data_vars}
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        data.dump_to_store(H5NetCDFStore(file), encoding=encoding)
    return buffer.getvalue()


def from_netcdf(content: bytes) -> "xarray.Dataset":
    """Read a dataset from the bytes of a netCDF file."""
    import xarray

    with xarray.open_dataset(io.BytesIO(content), engine="h5netcdf") as dataset:
        return dataset.load()


def append_checksum(netcdf: bytes) -> bytes:
    """Return netCDF data followed by a line with the format and the checksum of the data."""
    digest = hashlib.sha256(netcdf).hexdigest()
    return netcdf + f"\nkibitz format {FORMAT} sha256 {digest}\n".encode()


def read_verified(file: Path) -> bytes:
    """Return the netCDF data of a file; raise ValueError if the checksum does not match."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from None
    match = CHECKSUM_LINE.search(content)
    if match is None:
        return _read_unchecked(file)
    if int(match[1]) > FORMAT:
        raise _unreadable(file, f"format {int(match[1])} needs a later version of kibitz; upgrade it")
    netcdf = content[: match.start()]
    if hashlib.sha256(netcdf).hexdigest().encode() != match[2]:
        raise _unreadable(file, "checksum mismatch; restore a copy of the file, or delete it")
    return netcdf


def _read_unchecked(file: Path) -> bytes:
    """Return the netCDF data of a file of kibitz 0.1.0, which has no checksum.

    A child process reads the file, because HDF5 may crash on damaged data.
    """
    code = "import sys; from kibitz._netcdf import resave; resave(sys.argv[1])"
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, timeout=READ_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _unreadable(
            file, f"reading took more than {READ_TIMEOUT_SECONDS} s; use another file"
        ) from None
    if child.returncode != 0:
        raise _unreadable(file, "it is damaged or not a netCDF file; use another file")
    return child.stdout


def resave(file: str) -> None:
    """Write the dataset of a kibitz 0.1.0 file to standard output.

    Call this function in a child process, because HDF5 may crash on damaged data.
    """
    data = from_netcdf(Path(file).read_bytes())
    if "format" in data.attrs:  # a newer file that lost its checksum
        sys.exit(1)
    sys.stdout.buffer.write(to_netcdf(data))


def _unreadable(file: Path, reason: str) -> ValueError:
    return ValueError(f"cannot read {short_repr(str(file))}: {reason}")
